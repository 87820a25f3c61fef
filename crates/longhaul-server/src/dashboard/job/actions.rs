//! Actions of a job's page.

use axum::extract::Path;
use axum::response::Response;
use longhaul::job::Record;
use longhaul::{Job, Status};
use maud::{Markup, html};

use crate::api::http::caller::{Control, ManageWebhooks, Read, Submit};
use crate::api::http::params::JobPath;
use crate::api::webhooks::deliveries;
use crate::dashboard::components::ConfirmButton;
use crate::dashboard::form::Form;
use crate::dashboard::page_context::PageContext;
use crate::jobs::control;
use crate::problem::Problem;

/// Renders the buttons that the job's status and the caller's permissions allow.
pub(super) fn buttons(ctx: &PageContext<Read>, record: &Record) -> Markup {
    let job = &record.job;
    let (may_stop, may_submit) = (ctx.may::<Control>(), ctx.may::<Submit>());
    let at = |what: &str| ctx.link(&format!("/ui/jobs/{}/{what}", job.id), &[]);
    html! {
        div.bar role="group" aria-label="Change this job" {
            @if may_stop && !job.status.is_terminal() && job.cancel_requested_at.is_none() {
                (cancel_button(&at("cancel"), job).show(&ctx.session, &html! {}))
            }
            @if may_submit && is_stopped(job) && !job.has_payload {
                (resume_button(&at("resume"), job).show(&ctx.session, &html! {}))
            }
            @if may_submit && !job.has_payload {
                (fork_button(&at("fork")).show(&ctx.session, &html! {}))
            }
            @if may_stop && job.status.is_terminal() {
                (purge_button(&at("purge")).show(&ctx.session, &html! {}))
            }
            @if may_submit && job.has_payload && job.status.is_terminal() {
                span.soft { "The payload is deleted, so this job cannot run again. Submit a new job instead." }
            }
        }
    }
}

fn is_stopped(job: &Job) -> bool {
    matches!(job.status, Status::Failed | Status::Cancelled)
}

fn cancel_button<'a>(action: &'a str, job: &Job) -> ConfirmButton<'a> {
    let effect = if job.status == Status::Running {
        "The job stops after its current step, or is killed when the grace period ends. Finished steps \
         are kept, so it can be resumed."
    } else {
        "The job is removed from the queue at once. It can be resumed."
    };
    ConfirmButton {
        id: "ask-cancel",
        button: "Cancel…",
        about: "",
        question: "Cancel this job?",
        effect: html! { p { (effect) } },
        confirm: "Cancel job",
        action,
        is_final: false,
    }
}

fn resume_button<'a>(action: &'a str, job: &Job) -> ConfirmButton<'a> {
    ConfirmButton {
        id: "ask-resume",
        button: "Resume…",
        about: "",
        question: "Resume this job?",
        effect: html! {
            p {
                "The job is queued again and continues after its last finished step, with its original \
                 number of attempts. Attempts so far: " (job.attempt) "."
            }
        },
        confirm: "Resume job",
        action,
        is_final: false,
    }
}

fn fork_button(action: &str) -> ConfirmButton<'_> {
    ConfirmButton {
        id: "ask-fork",
        button: "Fork…",
        about: "",
        question: "Fork this job?",
        effect: html! {
            p {
                "Creates a new job with the same input and all finished steps. To run some of them again, \
                 fork from a step on the timeline. This job does not change."
            }
        },
        confirm: "Fork job",
        action,
        is_final: false,
    }
}

fn purge_button(action: &str) -> ConfirmButton<'_> {
    ConfirmButton {
        id: "ask-purge",
        button: "Purge…",
        about: "",
        question: "Purge this job?",
        effect: html! {
            p {
                "Deletes the job with its input, result, artifacts, steps and history. Its idempotency key \
                 can be used again. This cannot be undone."
            }
        },
        confirm: "Purge job",
        action,
        is_final: true,
    }
}

/// Renders the button that forks the job from a step.
pub(super) fn fork_from(ctx: &PageContext<Read>, job: &Job, index: usize, step: &str) -> Markup {
    let (id, action) = (format!("fork-{index}"), format!("/ui/jobs/{}/fork", job.id));
    let action = ctx.link(&action, &[]);
    let button = ConfirmButton {
        id: &id,
        button: "Fork from here…",
        about: step,
        question: "Fork from this step?",
        effect: html! {
            p {
                "Creates a new job with the same input and the steps before " strong { (step) } ". This step and \
                 all later ones run again. This job does not change."
            }
        },
        confirm: "Fork job",
        action: &action,
        is_final: false,
    };
    button.show(&ctx.session, &html! { input type="hidden" name="from-step" value=(step); })
}

pub(super) async fn cancel(
    ctx: PageContext<Control>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response, Problem> {
    control::cancel(&ctx.caller, id).await?;
    Ok(ctx.done(&format!("/ui/jobs/{id}"), "cancel"))
}

pub(super) async fn resume(
    ctx: PageContext<Submit>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response, Problem> {
    control::resume(&ctx.caller, id).await?;
    Ok(ctx.done(&format!("/ui/jobs/{id}"), "resume"))
}

pub(super) async fn fork(
    ctx: PageContext<Submit>,
    JobPath(id): JobPath,
    form: Form,
) -> Result<Response, Problem> {
    // The name of a step may begin or end with a space.
    let from_step = form.verbatim("from-step");
    let new = control::fork(&ctx.caller, id, from_step).await?;
    Ok(ctx.done(&format!("/ui/jobs/{}", new.id), "fork"))
}

pub(super) async fn purge(
    ctx: PageContext<Control>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response, Problem> {
    control::purge(&ctx.caller, id).await?;
    Ok(ctx.done("/ui/jobs", "purge"))
}

pub(super) async fn resend(
    ctx: PageContext<ManageWebhooks>,
    Path((id, delivery)): Path<(String, String)>,
    _form: Form,
) -> Result<Response, Problem> {
    deliveries::resend(&ctx.caller, deliveries::delivery_id(&delivery)?).await?;
    let job = id.parse::<longhaul::JobId>().map(|id| format!("/ui/jobs/{id}"));
    Ok(ctx.done(job.as_deref().unwrap_or("/ui/webhooks"), "resend"))
}
