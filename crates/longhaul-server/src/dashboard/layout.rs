//! Frame of every page: head, menu, notice and keyboard help.

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::components::{tab, token_field};
use super::session::Session;

/// Allows only files of this server, so that injected markup can load and run nothing.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// Sends the referrer to this server only, so that forms of its pages can be told from those of other sites.
const REFERRER: HeaderValue = HeaderValue::from_static("same-origin");

/// The menu entry of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
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

impl Section {
    /// All entries in the order of the menu: section, label and path.
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

/// Everything around the content of a page.
#[derive(Debug)]
pub(super) struct Shell<'a> {
    pub(super) title: &'a str,
    pub(super) section: Section,
    pub(super) session: &'a Session,
    /// None before the sign-in.
    pub(super) viewer: Option<Viewer>,
    /// Result of the action that led to this page.
    pub(super) notice: Option<String>,
}

/// The caller, as far as the frame depends on it.
#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) name: String,
    pub(super) may_submit: bool,
    pub(super) is_admin: bool,
    /// The caller's own tenant.
    pub(super) own_tenant: String,
    /// The viewed tenant, if it is not the caller's own.
    pub(super) other_tenant: Option<String>,
}

impl<'a> Shell<'a> {
    /// Returns the frame of a page that needs no sign-in.
    pub(super) fn plain(title: &'a str, section: Section, session: &'a Session) -> Self {
        Self { title, section, session, viewer: None, notice: None }
    }
}

/// Renders a page with menu and notice.
pub(super) fn page(shell: &Shell<'_>, content: &Markup) -> Response {
    let body = html! {
        a.skip href="#main" { "Skip to content" }
        (header(shell))
        main #main tabindex="-1" {
            @if let Some(notice) = &shell.notice { p.notice role="status" { (notice) } }
            (content)
        }
        (help())
    };
    bare(shell.title, &html! {}, &body)
}

/// Renders a page without menu; `head` is added to the `head` element.
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
    html! {
        header.top {
            a.brand href="/" { img src="/ui/icon.svg" alt="" width="22" height="22"; "Longhaul" }
            @if let Some(viewer) = &shell.viewer {
                nav aria-label="Pages" {
                    @for (section, name, path) in Section::ALL {
                        @if is_offered(section, viewer) {
                            (tab(&address(section, path, viewer), name, section == shell.section))
                        }
                    }
                    a href="/docs" { "API" }
                }
                (account(shell, viewer))
            }
        }
        @if let Some(tenant) = shell.viewer.as_ref().and_then(|v| v.other_tenant.as_deref()) {
            aside.other aria-label="Tenant" {
                "Viewing tenant " strong { (tenant) } ". "
                a href="/ui/jobs" {
                    "Return to " (shell.viewer.as_ref().map_or("", |v| v.own_tenant.as_str()))
                }
            }
        }
    }
}

/// Links keep the viewed tenant, except for submitting: jobs are always submitted to the caller's own tenant.
fn address(section: Section, path: &str, viewer: &Viewer) -> String {
    match viewer.other_tenant.as_deref().filter(|_| section != Section::Submit) {
        // A tenant id needs no escaping in a URL.
        Some(tenant) => format!("{path}?tenant={tenant}"),
        None => path.to_owned(),
    }
}

/// Reports whether the viewer has the permission for this section.
fn is_offered(section: Section, viewer: &Viewer) -> bool {
    match section {
        Section::Submit => viewer.may_submit,
        Section::Keys | Section::Tenants | Section::Audit => viewer.is_admin,
        Section::Overview | Section::Jobs | Section::Webhooks | Section::Usage | Section::None => {
            true
        }
    }
}

fn account(shell: &Shell<'_>, viewer: &Viewer) -> Markup {
    html! {
        div.account {
            span.soft { (viewer.name) }
            @if shell.session.credential.is_some() {
                form method="post" action="/ui/sign-out" {
                    (token_field(shell.session))
                    button.quiet { "Sign out" }
                }
            }
        }
    }
}

/// Renders the list of keyboard shortcuts, which the script opens.
fn help() -> Markup {
    let keys = [
        ("j / k", "Next or previous row"),
        ("Enter", "Open the row"),
        ("x", "Select the row"),
        ("/", "Search"),
        ("g o, g j, g s", "Go to overview, jobs or submit"),
        ("?", "Show this list"),
    ];
    html! {
        dialog #keyboard aria-labelledby="keyboard-title" {
            h2 #keyboard-title { "Keyboard shortcuts" }
            dl { @for (key, does) in keys { dt { kbd { (key) } } dd { (does) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}
