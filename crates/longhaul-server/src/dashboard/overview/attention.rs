//! What somebody who was woken up has to know first.

use std::time::Duration;

use longhaul::Timestamp;
use maud::{Markup, html};

use super::{COUNTED_MAX, Seen};
use crate::api::http::caller::Inspect;
use crate::dashboard::parts::{count, took};
use crate::dashboard::view::View;

/// A job that has been due for so long waits for something that is wrong.
const LATE: Duration = Duration::from_mins(1);

/// What is wrong, the worst first.
pub(super) fn show(view: &View<Inspect>, seen: &Seen) -> Markup {
    let found = find(view, seen);
    html! {
        section.attention.calm[found.is_empty()] aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            @if found.is_empty() {
                p { "Nothing does." }
            } @else {
                ul { @for one in &found { li { (one) } } }
            }
        }
    }
}

fn find(view: &View<Inspect>, seen: &Seen) -> Vec<Markup> {
    let mut found = Vec::new();
    let works = |role: &str| role != "api";
    if !seen.replicas.iter().any(|replica| replica.alive && works(&replica.role)) {
        found.push(
            html! { strong { "No replica runs jobs." } " Start one: " code { "longhaul serve" } },
        );
    }
    for replica in seen.replicas.iter().filter(|replica| !replica.alive) {
        found.push(html! {
            strong { "The replica " (replica.name) " fell silent" }
            " without saying goodbye, on " (replica.host) ". Its jobs are run by others."
        });
    }
    for queue in &seen.queues {
        let url = view.link("/ui/jobs", &[("queue", &queue.name), ("status", "pending")]);
        if queue.paused && queue.pending > 0 {
            found.push(html! {
                strong { "The queue " a href=(url) { (queue.name) } " is paused" }
                " and holds " (count(queue.pending)) " jobs back."
            });
            continue;
        }
        let oldest = queue.oldest_due_at.as_ref().and_then(|at| Timestamp::parse(at.as_str()));
        let late = oldest.map(|at| seen.now.since(at)).filter(|late| *late >= LATE);
        if let Some(late) = late {
            found.push(html! {
                strong {
                    "The oldest job in " a href=(url) { (queue.name) } " has waited for "
                    (took(late))
                }
                "; " (count(queue.pending)) " are pending there."
            });
        }
    }
    for (kind, failed, ended) in seen.hour.iter().flat_map(|hour| hour.failing_kinds()) {
        let url = view.link("/ui/jobs", &[("status", "failed"), ("kind", kind)]);
        found.push(html! {
            strong { a href=(url) { (count(failed)) " failed" } " of the kind " (kind) }
            " in the last hour, of " (count(ended)) " that ended."
        });
    }
    if seen.dead_letters > 0 {
        let more = if seen.dead_letters >= COUNTED_MAX { "or more " } else { "" };
        found.push(html! {
            strong { (seen.dead_letters) " " (more) "webhook deliveries were given up." } " "
            a href=(view.link("/ui/webhooks", &[("status", "failed")])) {
                "Read why, and resend them"
            }
        });
    }
    found
}
