//! Keys: who may do what, and until when.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use longhaul::Timestamp;
use longhaul_client::wire::{Instant, Key, KeyRequest, NewKey, Scope};
use maud::{Markup, html};

use super::form::Form;
use super::layout::Place;
use super::parts::{Ask, token, told, told_or};
use super::view::View;
use crate::api::AppState;
use crate::api::accounts::keys;
use crate::api::http::caller::Admin;
use crate::api::http::params::{IdPath, Pairs};
use crate::problem::Problem;

/// What a key can be good for, and what that means.
const SCOPES: [(Scope, &str, &str); 4] = [
    (Scope::Submit, "submit", "submit and change jobs"),
    (Scope::Read, "read", "read and watch jobs"),
    (Scope::Work, "work", "run jobs as a remote worker"),
    (Scope::Admin, "admin", "run the server: everything"),
];

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/keys", get(show).post(create))
        .route("/ui/keys/{id}/revoke", post(revoke))
}

async fn show(State(state): State<AppState>, view: View<Admin>) -> Result<Response, Problem> {
    page(&state, &view, None).await
}

async fn page(
    state: &AppState,
    view: &View<Admin>,
    made: Option<&NewKey>,
) -> Result<Response, Problem> {
    let mut query = view.query.clone();
    // The tenant that is looked at, which every page takes, is also what the list is narrowed to.
    query.extend(view.other().map(|tenant| ("tenant".to_owned(), tenant.to_string())));
    let mut found = keys::list(state, Pairs(query)).await?;
    let now = view.caller.engine.now();
    // Those that are good first, and of each the newest.
    found.keys.sort_by(|one, other| other.created_at.as_str().cmp(one.created_at.as_str()));
    found.keys.sort_by_key(|key| has_ended(key, now));
    let content = html! {
        h1 { "Keys" }
        @if let Some(made) = made { (fresh(made)) }
        (wanted(view))
        section aria-labelledby="keys-title" {
            h2 #keys-title { "All keys" }
            @if found.keys.is_empty() {
                p.soft {
                    "There is no key. As long as " code { "auth.require_keys" }
                    " is off, nobody needs one."
                }
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Keys" {
                    table {
                        thead {
                            tr {
                                th { "Key" } th { "Name" } th { "Tenant" } th { "Scopes" }
                                th { "Made" } th { "Last used" } th { "Ends" }
                                th { span.unseen { "What can be done" } }
                            }
                        }
                        tbody { @for key in &found.keys { (row(view, key, now)) } }
                    }
                }
            }
            @if let Some(next) = &found.next_cursor {
                nav.pages aria-label="Pages of keys" {
                    a rel="next" href=(view.link("/ui/keys", &[("cursor", next)])) { "More" }
                }
            }
        }
    };
    Ok(view.page("Keys", Place::Keys, &content))
}

fn row(view: &View<Admin>, key: &Key, now: Timestamp) -> Markup {
    let has_ended = has_ended(key, now);
    html! {
        tr.ended[has_ended] {
            td { code { (key.id) } }
            td { (key.name) }
            td { (key.tenant) }
            td { @for scope in &key.scopes { span.label { (scope_word(*scope)) } } }
            td { (told(key.created_at.as_str())) }
            td { (told_or(key.last_used_at.as_ref(), "never")) }
            td {
                @if let Some(at) = &key.revoked_at { "revoked " (told(at.as_str())) }
                @else { (told_or(key.expires_at.as_ref(), "never")) }
            }
            td { @if !has_ended { (revoking(view, key)) } }
        }
    }
}

fn has_ended(key: &Key, now: Timestamp) -> bool {
    let has_passed = |at: &Instant| Timestamp::parse(at.as_str()).is_some_and(|at| at <= now);
    key.revoked_at.is_some() || key.expires_at.as_ref().is_some_and(has_passed)
}

fn scope_word(scope: Scope) -> &'static str {
    let found = SCOPES.iter().find(|(known, _, _)| *known == scope);
    found.map_or("", |(_, word, _)| word)
}

fn revoking(view: &View<Admin>, key: &Key) -> Markup {
    let (id, action) = (format!("revoke-{}", key.id), format!("/ui/keys/{}/revoke", key.id));
    let ask = Ask {
        id: &id,
        button: "Revoke…",
        about: &key.name,
        question: "Revoke this key?",
        effect: html! {
            p {
                "Whoever uses " strong { (key.name) }
                " is refused, here at once and on every replica within five seconds. Sessions \
                 that began with it end. This cannot be undone."
            }
        },
        confirm: "Revoke the key",
        action: &action,
        is_final: true,
    };
    ask.show(&view.session, &html! {})
}

/// A key that was just made: the only time that it is shown.
fn fresh(made: &NewKey) -> Markup {
    html! {
        section.fresh role="status" aria-labelledby="fresh-title" {
            h2 #fresh-title { "The new key " (made.metadata.name) }
            p { "Copy it now: it is not shown again." }
            p.tools {
                code #fresh-key { (made.key) }
                button type="button" data-copy-of="fresh-key" { "Copy" }
            }
        }
    }
}

fn wanted(view: &View<Admin>) -> Markup {
    html! {
        section aria-labelledby="wanted-title" {
            h2 #wanted-title { "Make a key" }
            form.inline method="post" action="/ui/keys" {
                (token(&view.session))
                label {
                    "Name" input name="name" required maxlength="200" placeholder="who uses it";
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
                label { "Ends after" input name="lasts" placeholder="never, or 90d" size="12"; }
                button.primary { "Make the key" }
            }
        }
    }
}

async fn create(
    State(state): State<AppState>,
    view: View<Admin>,
    form: Form,
) -> Result<Response, Problem> {
    let scopes = form.all("scope");
    let scopes = scopes.filter_map(|word| SCOPES.iter().find(|(_, known, _)| *known == word));
    let expires_at = form.duration("lasts")?.map(|lasts| state.auth.now().after(lasts));
    let request = KeyRequest {
        tenant: form.text("tenant"),
        name: form.text("name").unwrap_or_default(),
        scopes: scopes.map(|(scope, _, _)| *scope).collect(),
        expires_at: expires_at.map(|at| Instant(at.to_string())),
        requests_per_second: None,
    };
    let made = keys::create(&state, &view.caller, request).await?;
    // Not a redirect: the key is shown in this answer, and then nowhere.
    page(&state, &view, Some(&made)).await
}

async fn revoke(
    State(state): State<AppState>,
    view: View<Admin>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response, Problem> {
    keys::revoke(&state, &view.caller, &id).await?;
    Ok(view.done("/ui/keys", "revoke"))
}
