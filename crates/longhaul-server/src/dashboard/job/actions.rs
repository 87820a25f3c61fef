//! What can be done to a job from its page.

use axum::extract::Path;
use axum::response::Response;
use longhaul::job::Record;
use longhaul::{Job, Status};
use maud::{Markup, html};

use crate::api::http::caller::{Control, Read, Submit};
use crate::api::http::params::JobPath;
use crate::api::jobs::control;
use crate::api::webhooks::deliveries;
use crate::dashboard::form::Form;
use crate::dashboard::parts::Ask;
use crate::dashboard::view::View;
use crate::problem::Problem;

/// The buttons that the job's status and the viewer's scopes allow.
pub(super) fn buttons(view: &View<Read>, record: &Record) -> Markup {
    let job = &record.job;
    let (may_stop, may_submit) = (view.may::<Control>(), view.may::<Submit>());
    let at = |what: &str| view.link(&format!("/ui/jobs/{}/{what}", job.id), &[]);
    html! {
        div.bar role="group" aria-label="Change this job" {
            @if may_stop && !job.status.is_terminal() && job.cancel_requested_at.is_none() {
                (cancelling(&at("cancel"), job).show(&view.session, &html! {}))
            }
            @if may_submit && is_stopped(job) && !job.has_payload {
                (resuming(&at("resume"), job).show(&view.session, &html! {}))
            }
            @if may_submit && !job.has_payload {
                (forking(&at("fork")).show(&view.session, &html! {}))
            }
            @if may_stop && job.status.is_terminal() {
                (purging(&at("purge")).show(&view.session, &html! {}))
            }
            @if may_submit && job.has_payload && job.status.is_terminal() {
                span.soft { "Its payload is destroyed, so it cannot run again: submit it anew." }
            }
        }
    }
}

fn is_stopped(job: &Job) -> bool {
    matches!(job.status, Status::Failed | Status::Cancelled)
}

fn cancelling<'a>(action: &'a str, job: &Job) -> Ask<'a> {
    let effect = if job.status == Status::Running {
        "It is asked to stop, starts no further step, and is stopped hard if it takes too long. Its \
         finished steps are kept, so it can be resumed."
    } else {
        "It leaves the line at once and is not run. It can be resumed."
    };
    Ask {
        id: "ask-cancel",
        button: "Cancel…",
        about: "",
        question: "Cancel this job?",
        effect: html! { p { (effect) } },
        confirm: "Cancel the job",
        action,
        is_final: false,
    }
}

fn resuming<'a>(action: &'a str, job: &Job) -> Ask<'a> {
    Ask {
        id: "ask-resume",
        button: "Resume…",
        about: "",
        question: "Resume this job?",
        effect: html! {
            p {
                "It goes back in line and goes on after its last finished step, with as many further \
                 attempts as it had at first. It had " (job.attempt) "."
            }
        },
        confirm: "Resume the job",
        action,
        is_final: false,
    }
}

fn forking(action: &str) -> Ask<'_> {
    Ask {
        id: "ask-fork",
        button: "Fork…",
        about: "",
        question: "Fork this job?",
        effect: html! {
            p {
                "A new job is made with the same input and all steps that are finished. To run some of them \
                 again, fork from a step on the timeline. This job stays as it is."
            }
        },
        confirm: "Fork the job",
        action,
        is_final: false,
    }
}

fn purging(action: &str) -> Ask<'_> {
    Ask {
        id: "ask-purge",
        button: "Purge…",
        about: "",
        question: "Purge this job?",
        effect: html! {
            p {
                "It is deleted with its input, result, artifacts, steps and history. Its id is remembered as \
                 gone, and its idempotency key is free again. This cannot be undone."
            }
        },
        confirm: "Purge the job",
        action,
        is_final: true,
    }
}

/// The button beside a step.
pub(super) fn fork_from(view: &View<Read>, job: &Job, place: usize, step: &str) -> Markup {
    let (id, action) = (format!("fork-{place}"), format!("/ui/jobs/{}/fork", job.id));
    let action = view.link(&action, &[]);
    let ask = Ask {
        id: &id,
        button: "Fork from here…",
        about: step,
        question: "Fork from this step?",
        effect: html! {
            p {
                "A new job is made with the same input and the steps before " strong { (step) } ", which runs \
                 again with all that follow it. This job stays as it is."
            }
        },
        confirm: "Fork the job",
        action: &action,
        is_final: false,
    };
    ask.show(&view.session, &html! { input type="hidden" name="from-step" value=(step); })
}

pub(super) async fn cancel(
    view: View<Control>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response, Problem> {
    control::cancel(&view.caller, id).await?;
    Ok(view.done(&format!("/ui/jobs/{id}"), "cancel"))
}

pub(super) async fn resume(
    view: View<Submit>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response, Problem> {
    control::resume(&view.caller, id).await?;
    Ok(view.done(&format!("/ui/jobs/{id}"), "resume"))
}

pub(super) async fn fork(
    view: View<Submit>,
    JobPath(id): JobPath,
    form: Form,
) -> Result<Response, Problem> {
    // A step may be called anything, also something that begins or ends with a space.
    let from_step = form.verbatim("from-step");
    let new = control::fork(&view.caller, id, from_step).await?;
    Ok(view.done(&format!("/ui/jobs/{}", new.id), "fork"))
}

pub(super) async fn purge(
    view: View<Control>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response, Problem> {
    control::purge(&view.caller, id).await?;
    Ok(view.done("/ui/jobs", "purge"))
}

pub(super) async fn resend(
    view: View<Submit>,
    Path((id, delivery)): Path<(String, String)>,
    _form: Form,
) -> Result<Response, Problem> {
    deliveries::resend(&view.caller, deliveries::delivery_id(&delivery)?).await?;
    let job = id.parse::<longhaul::JobId>().map(|id| format!("/ui/jobs/{id}"));
    Ok(view.done(job.as_deref().unwrap_or("/ui/webhooks"), "resend"))
}
