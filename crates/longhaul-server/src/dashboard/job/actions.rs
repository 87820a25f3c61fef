//! Actions of a job's page.

use axum::extract::Path;
use axum::response::Response;
use longhaul_client::wire::Status;
use maud::{Markup, html};

use crate::api::http::caller::{Control, ManageWebhooks, Read, Submit};
use crate::api::http::params::JobPath;
use crate::api::webhooks::deliveries;
use crate::dashboard::components::ConfirmButton;
use crate::dashboard::form::Form;
use crate::dashboard::page_context::PageContext;
use crate::jobs::control;
use crate::jobs::details::JobDetails;
use crate::problem::Result;

/// Renders the buttons that the job's status and the caller's permissions allow.
pub(super) fn buttons(ctx: &PageContext<Read>, details: &JobDetails) -> Markup {
    let JobDetails { job, has_payload, .. } = details;
    let (may_stop, may_submit) = (ctx.may::<Control>(), ctx.may::<Submit>());
    let is_terminal = job.status.is_terminal();
    let is_stopped = matches!(job.status, Status::Failed | Status::Cancelled);
    let button = |action: &JobAction<'_>| {
        let path = format!("/ui/jobs/{}/{}", job.job_id, action.name);
        let button = ConfirmButton {
            id: &format!("ask-{}", action.name),
            button: &format!("{}…", action.verb),
            about: "",
            question: &format!("{} this job?", action.verb),
            effect: html! { p { (action.effect) } },
            confirm: &format!("{} job", action.verb),
            action: &ctx.link(&path, &[]),
            is_final: action.is_final,
        };
        button.show(&ctx.session, &html! {})
    };
    let resume = format!(
        "The job is queued again and continues after its last finished step, with its original \
         number of attempts. Attempts so far: {}.",
        job.attempt
    );
    html! {
        div.bar role="group" aria-label="Change this job" {
            @if may_stop && !is_terminal && !details.is_cancel_requested {
                (button(if job.status == Status::Running { &CANCEL_RUNNING } else { &CANCEL_PENDING }))
            }
            @if may_submit && is_stopped && !has_payload {
                (button(&JobAction { name: "resume", verb: "Resume", effect: &resume, is_final: false }))
            }
            @if may_submit && !has_payload { (button(&FORK)) }
            @if may_stop && is_terminal { (button(&PURGE)) }
            @if may_submit && *has_payload && is_terminal {
                span.soft { "The payload is deleted, so this job cannot run again. Submit a new job instead." }
            }
        }
    }
}

/// A change of one job; `name` is its path segment.
struct JobAction<'a> {
    name: &'static str,
    verb: &'static str,
    effect: &'a str,
    is_final: bool,
}

const CANCEL_RUNNING: JobAction<'_> = JobAction {
    name: "cancel",
    verb: "Cancel",
    effect: "The job stops after its current step, or is killed when the grace period ends. Finished steps \
             are kept, so it can be resumed.",
    is_final: false,
};
const CANCEL_PENDING: JobAction<'_> = JobAction {
    effect: "The job is removed from the queue at once. It can be resumed.",
    ..CANCEL_RUNNING
};
const FORK: JobAction<'_> = JobAction {
    name: "fork",
    verb: "Fork",
    effect: "Creates a new job with the same input and all finished steps. To run some of them again, \
             fork from a step on the timeline. This job does not change.",
    is_final: false,
};
const PURGE: JobAction<'_> = JobAction {
    name: "purge",
    verb: "Purge",
    effect: "Deletes the job with its input, result, artifacts, steps and history. Its idempotency key \
             can be used again. This cannot be undone.",
    is_final: true,
};

/// Renders the button that forks the job from a step.
pub(super) fn fork_from(ctx: &PageContext<Read>, job: &str, index: usize, step: &str) -> Markup {
    let button = ConfirmButton {
        id: &format!("fork-{index}"),
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
        action: &ctx.link(&format!("/ui/jobs/{job}/fork"), &[]),
        is_final: false,
    };
    button.show(&ctx.session, &html! { input type="hidden" name="from-step" value=(step); })
}

pub(super) async fn cancel(
    ctx: PageContext<Control>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response> {
    control::cancel(&ctx.caller, id).await?;
    Ok(ctx.done(&format!("/ui/jobs/{id}"), "cancel"))
}

pub(super) async fn resume(
    ctx: PageContext<Submit>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response> {
    control::resume(&ctx.caller, id).await?;
    Ok(ctx.done(&format!("/ui/jobs/{id}"), "resume"))
}

pub(super) async fn fork(
    ctx: PageContext<Submit>,
    JobPath(id): JobPath,
    form: Form,
) -> Result<Response> {
    // The name of a step may begin or end with a space.
    let from_step = form.verbatim("from-step");
    let new = control::fork(&ctx.caller, id, from_step).await?;
    Ok(ctx.done(&format!("/ui/jobs/{}", new.id), "fork"))
}

pub(super) async fn purge(
    ctx: PageContext<Control>,
    JobPath(id): JobPath,
    _form: Form,
) -> Result<Response> {
    control::purge(&ctx.caller, id).await?;
    Ok(ctx.done("/ui/jobs", "purge"))
}

pub(super) async fn resend(
    ctx: PageContext<ManageWebhooks>,
    Path((id, delivery)): Path<(String, String)>,
    _form: Form,
) -> Result<Response> {
    deliveries::resend(&ctx.caller, deliveries::delivery_id(&delivery)?).await?;
    let job = id.parse::<longhaul::JobId>().map(|id| format!("/ui/jobs/{id}"));
    Ok(ctx.done(job.as_deref().unwrap_or("/ui/webhooks"), "resend"))
}
