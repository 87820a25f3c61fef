//! What all pages have in common.

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::form::TOKEN;
use super::session::Session;

/// Our own files and nothing else, whatever finds its way into a page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// Our own pages may say which of them a form came from, so that it can be told from others'.
const REFERRER: HeaderValue = HeaderValue::from_static("same-origin");

/// Where a page stands in the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Jobs,
    Submit,
    Webhooks,
    Usage,
    Keys,
    Tenants,
    Audit,
    None,
}

impl Place {
    /// In the order of the menu: what is looked at first comes first.
    const ALL: [(Self, &'static str, &'static str); 8] = [
        (Self::Overview, "Overview", "/"),
        (Self::Jobs, "Jobs", "/ui/jobs"),
        (Self::Submit, "Submit", "/ui/submit"),
        (Self::Webhooks, "Webhooks", "/ui/webhooks"),
        (Self::Usage, "Usage", "/ui/usage"),
        (Self::Keys, "Keys", "/ui/keys"),
        (Self::Tenants, "Tenants", "/ui/tenants"),
        (Self::Audit, "Audit", "/ui/audit"),
    ];
}

/// What is around a page's content.
#[derive(Debug)]
pub(super) struct Shell<'a> {
    pub(super) title: &'a str,
    pub(super) place: Place,
    pub(super) session: &'a Session,
    /// Whoever looks; none before anybody has signed in.
    pub(super) viewer: Option<Viewer>,
    /// What has just been done.
    pub(super) notice: Option<String>,
}

/// Whoever looks at a page, as far as its frame depends on it.
#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) name: String,
    pub(super) may_submit: bool,
    pub(super) is_admin: bool,
    /// The tenant that is looked at instead of the viewer's own.
    pub(super) other_tenant: Option<String>,
}

impl<'a> Shell<'a> {
    /// For pages that are shown to whoever comes.
    pub(super) fn plain(title: &'a str, place: Place, session: &'a Session) -> Self {
        Self { title, place, session, viewer: None, notice: None }
    }
}

/// A whole page around its content.
pub(super) fn page(shell: &Shell<'_>, content: &Markup) -> Response {
    let body = html! {
        a.skip href="#main" { "Skip to the content" }
        (header(shell))
        main #main tabindex="-1" {
            @if let Some(notice) = &shell.notice { p.notice role="status" { (notice) } }
            (content)
        }
        (help())
    };
    bare(shell.title, &html! {}, &body)
}

/// A page without the menu; `head` comes into its head.
pub(crate) fn bare(title: &str, head: &Markup, body: &Markup) -> Response {
    let title = if title == "Longhaul" { title.to_owned() } else { format!("{title} · Longhaul") };
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="/ui/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/ui/style.css";
                script src="/ui/app.js" defer {}
                (head)
            }
            body { (body) }
        }
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, REFERRER),
    ];
    (headers, text.into_string()).into_response()
}

fn header(shell: &Shell<'_>) -> Markup {
    let other = shell.viewer.as_ref().and_then(|viewer| viewer.other_tenant.as_deref());
    html! {
        header {
            div.top {
                a.brand href="/" { img src="/ui/icon.svg" alt="" width="22" height="22"; "Longhaul" }
                @if let Some(viewer) = &shell.viewer {
                    nav aria-label="Pages" {
                        @for (place, name, path) in Place::ALL {
                            @if is_offered(place, viewer) {
                                a href=(of_tenant(path, other))
                                    aria-current=[(place == shell.place).then_some("page")] { (name) }
                            }
                        }
                        a href="/docs" { "API" }
                    }
                    (whoever(shell, viewer))
                }
            }
            @if let Some(tenant) = other {
                p.other {
                    "You look at the tenant " strong { (tenant) } ". "
                    a href="/ui/jobs" { "Back to your own" }
                }
            }
        }
    }
}

/// Whoever looks at another tenant goes on to, from page to page.
fn of_tenant(path: &str, other: Option<&str>) -> String {
    match other {
        Some(tenant) => format!("{path}?tenant={tenant}"),
        None => path.to_owned(),
    }
}

/// What a key may not do is not offered to it.
fn is_offered(place: Place, viewer: &Viewer) -> bool {
    match place {
        Place::Submit => viewer.may_submit,
        Place::Keys | Place::Tenants | Place::Audit => viewer.is_admin,
        Place::Overview | Place::Jobs | Place::Webhooks | Place::Usage | Place::None => true,
    }
}

fn whoever(shell: &Shell<'_>, viewer: &Viewer) -> Markup {
    html! {
        div.whoever {
            span.soft { (viewer.name) }
            @if shell.session.shown.is_some() {
                form method="post" action="/ui/sign-out" {
                    input type="hidden" name=(TOKEN) value=(shell.session.token);
                    button.quiet { "Sign out" }
                }
            }
        }
    }
}

/// What the keyboard can do; the script shows it.
fn help() -> Markup {
    let keys = [
        ("j / k", "next or previous row"),
        ("Enter", "open the row"),
        ("x", "select the row"),
        ("/", "search"),
        ("g o, g j, g s", "go to the overview, to jobs, to submit"),
        ("?", "this list"),
    ];
    html! {
        dialog #keyboard aria-labelledby="keyboard-title" {
            h2 #keyboard-title { "Keyboard" }
            dl { @for (key, does) in keys { dt { kbd { (key) } } dd { (does) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}
