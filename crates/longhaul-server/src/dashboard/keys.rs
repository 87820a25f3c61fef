//! API keys page.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use longhaul::Timestamp;
use longhaul_client::wire::{Instant, Key, KeyRequest, NewKey, Scope};
use maud::{Markup, html};

use super::components::{
    ACTIONS, ConfirmButton, new_secret, next_page, table, time, time_or, timestamp, token_field,
};
use super::form::Form;
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::AppState;
use crate::api::accounts::keys;
use crate::api::http::caller::Admin;
use crate::api::http::params::{IdPath, Pairs};
use crate::problem::Result;
use crate::to_wire;

/// Scopes with their names and descriptions.
const SCOPES: [(Scope, &str, &str); 4] = [
    (Scope::Submit, "submit", "Submit, cancel and resume jobs"),
    (Scope::Read, "read", "Read and watch jobs"),
    (Scope::Work, "work", "Run jobs as a remote worker"),
    (Scope::Admin, "admin", "Administer the server: all permissions"),
];

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/keys", get(show).post(create))
        .route("/ui/keys/{id}/revoke", post(revoke))
}

async fn show(State(state): State<AppState>, ctx: PageContext<Admin>) -> Result<Response> {
    page(&state, &ctx, None).await
}

async fn page(
    state: &AppState,
    ctx: &PageContext<Admin>,
    created: Option<&NewKey>,
) -> Result<Response> {
    let mut query = ctx.query.clone();
    // The viewed tenant also filters the list.
    query.extend(ctx.other().map(|tenant| ("tenant".to_owned(), tenant.to_string())));
    let mut page = keys::list(state, Pairs(query)).await?;
    let now = ctx.caller.engine.now();
    // Active keys first, then the newest.
    page.keys.sort_by(|one, other| other.created_at.as_str().cmp(one.created_at.as_str()));
    page.keys.sort_by_key(|key| is_inactive(key, now));
    let next = page.next_cursor.as_deref();
    let next = next.map(|next| ctx.link("/ui/keys", &[("cursor", next)]));
    let content = html! {
        h1 { "Keys" }
        @if let Some(NewKey { key, metadata }) = created {
            (new_secret(&format!("New key: {}", metadata.name), "Copy it now: it is not shown again.", key))
        }
        (create_form(ctx))
        section aria-labelledby="keys-title" {
            h2 #keys-title { "All keys" }
            @if page.keys.is_empty() {
                p.soft {
                    "No API keys."
                    @if !state.auth.settings().require_keys {
                        " Authentication is off (" code { "auth.require_keys = false" } ")."
                    }
                }
            } @else {
                (table(
                    "Keys",
                    &["Key", "Name", "Tenant", "Scopes", "Created", "Last used", "Expires", ACTIONS],
                    page.keys.iter().map(|key| row(ctx, key, now)),
                ))
            }
            (next_page("Pages of keys", "More", next))
        }
    };
    Ok(ctx.page("Keys", Section::Keys, &content))
}

fn row(ctx: &PageContext<Admin>, key: &Key, now: Timestamp) -> Markup {
    let is_inactive = is_inactive(key, now);
    html! {
        tr.ended[is_inactive] {
            td { code { (key.id) } }
            td { (key.name) }
            td { (key.tenant) }
            td { @for scope in &key.scopes { span.label { (scope_word(*scope)) } } }
            td { (time(&key.created_at)) }
            td { (time_or(key.last_used_at.as_ref(), "Never")) }
            td {
                @if let Some(at) = &key.revoked_at { "Revoked " (time(at)) }
                @else { (time_or(key.expires_at.as_ref(), "Never")) }
            }
            td { @if !is_inactive { (revoke_button(ctx, key)) } }
        }
    }
}

fn is_inactive(key: &Key, now: Timestamp) -> bool {
    let has_passed = |at: &Instant| timestamp(at) <= now;
    key.revoked_at.is_some() || key.expires_at.as_ref().is_some_and(has_passed)
}

fn scope_word(scope: Scope) -> &'static str {
    let found = SCOPES.iter().find(|(known, _, _)| *known == scope);
    found.map_or("", |(_, word, _)| word)
}

fn revoke_button(ctx: &PageContext<Admin>, key: &Key) -> Markup {
    let (id, action) = (format!("revoke-{}", key.id), format!("/ui/keys/{}/revoke", key.id));
    let button = ConfirmButton {
        id: &id,
        button: "Revoke…",
        about: &key.name,
        question: "Revoke this key?",
        effect: html! {
            p {
                "Requests with " strong { (key.name) }
                " are rejected, here at once and on every replica within five seconds. Sessions of \
                 this key end. This cannot be undone."
            }
        },
        confirm: "Revoke key",
        action: &action,
        is_final: true,
    };
    button.show(&ctx.session, &html! {})
}

fn create_form(ctx: &PageContext<Admin>) -> Markup {
    html! {
        section aria-labelledby="create-title" {
            h2 #create-title { "Create a key" }
            form.inline method="post" action="/ui/keys" {
                (token_field(&ctx.session))
                label {
                    "Name" input name="name" required maxlength="200" placeholder="Application or person";
                }
                label { "Tenant" input name="tenant" placeholder="default" size="12"; }
                fieldset {
                    legend { "Scopes" }
                    @for (_, word, meaning) in SCOPES {
                        label.chip title=(meaning) {
                            input type="checkbox" name="scope" value=(word); (word)
                        }
                    }
                }
                label { "Expires after" input name="lasts" placeholder="Never, or 90d" size="12"; }
                button.primary { "Create key" }
            }
        }
    }
}

async fn create(
    State(state): State<AppState>,
    ctx: PageContext<Admin>,
    form: Form,
) -> Result<Response> {
    let scopes = form.all("scope");
    let scopes = scopes.filter_map(|word| SCOPES.iter().find(|(_, known, _)| *known == word));
    let expires_at = form.duration("lasts")?.map(|lasts| state.auth.now().after(lasts));
    let request = KeyRequest {
        tenant: form.text("tenant"),
        name: form.text("name").unwrap_or_default(),
        scopes: scopes.map(|(scope, _, _)| *scope).collect(),
        expires_at: expires_at.map(to_wire::instant),
        requests_per_second: None,
    };
    let created = keys::create(&state, &ctx.caller, request).await?;
    // Not a redirect, because only this response shows the key.
    page(&state, &ctx, Some(&created)).await
}

async fn revoke(
    State(state): State<AppState>,
    ctx: PageContext<Admin>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response> {
    keys::revoke(&state, &ctx.caller, &id).await?;
    Ok(ctx.done("/ui/keys", "revoke"))
}
