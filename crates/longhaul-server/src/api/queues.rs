//! Queues: list, pause and resume.

use axum::Json;
use longhaul::Engine;
use longhaul::job::Name;
use longhaul::job::format_duration;
use longhaul::store::QueueState;
use longhaul_client::wire::{Queue, QueueList};
use utoipa_axum::routes;

use crate::api::http::caller::{Caller, Control, Inspect};
use crate::api::http::load_shedding::Class;
use crate::api::http::openapi::{QueueProblems, ReadProblems};
use crate::api::http::params::NamePath;
use crate::api::http::routes::Routes;
use crate::problem::Result;
use crate::to_wire;

pub(super) fn router() -> Routes {
    Routes::new()
        .route::<Inspect>(Class::Normal, routes!(list_queues))
        .route::<Control>(Class::Normal, routes!(pause_queue))
        .route::<Control>(Class::Normal, routes!(resume_queue))
}

/// List the queues that have unfinished jobs or are paused.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "listQueues", tag = "queues",
    responses((status = 200, description = "The queues.", body = QueueList), ReadProblems),
)]
async fn list_queues(caller: Caller<Inspect>) -> Result<Json<QueueList>> {
    Ok(Json(QueueList { queues: list(&caller.engine).await? }))
}

/// Returns the queues of the engine's tenant.
pub(crate) async fn list(engine: &Engine) -> Result<Vec<Queue>> {
    let queues = engine.queues().await?;
    Ok(queues.iter().map(|queue| to_wire(engine, queue)).collect())
}

/// Pause a queue. Running jobs continue.
#[utoipa::path(
    post, path = "/v1/queues/{name}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description = "The queue.")),
    responses((status = 200, description = "The queue.", body = Queue), QueueProblems),
)]
async fn pause_queue(caller: Caller<Control>, NamePath(name): NamePath) -> Result<Json<Queue>> {
    pause(&caller, &name).await?;
    queue(&caller.engine, name).await
}

pub(crate) async fn pause(caller: &Caller<Control>, name: &Name) -> Result<()> {
    caller.audit("queue.pause", name.as_str(), String::new()).await?;
    Ok(caller.engine.pause_queue(name).await?)
}

/// Resume a paused queue.
#[utoipa::path(
    post, path = "/v1/queues/{name}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description = "The queue.")),
    responses((status = 200, description = "The queue.", body = Queue), QueueProblems),
)]
async fn resume_queue(caller: Caller<Control>, NamePath(name): NamePath) -> Result<Json<Queue>> {
    resume(&caller, &name).await?;
    queue(&caller.engine, name).await
}

pub(crate) async fn resume(caller: &Caller<Control>, name: &Name) -> Result<()> {
    caller.audit("queue.resume", name.as_str(), String::new()).await?;
    Ok(caller.engine.resume_queue(name).await?)
}

/// Reads the state of a queue. A queue that is not listed has no jobs and is not paused.
async fn queue(engine: &Engine, name: Name) -> Result<Json<Queue>> {
    let queues = engine.queues().await?;
    let found = queues.into_iter().find(|queue| queue.name == name);
    let empty = || QueueState { name, paused: false, pending: 0, running: 0, oldest_due_at: None };
    Ok(Json(to_wire(engine, &found.unwrap_or_else(empty))))
}

fn to_wire(engine: &Engine, queue: &QueueState) -> Queue {
    let limit = engine.flow_limits().queue(&queue.name);
    Queue {
        name: queue.name.to_string(),
        paused: queue.paused,
        pending: queue.pending,
        running: queue.running,
        oldest_due_at: queue.oldest_due_at.map(to_wire::instant),
        running_max: limit.running_max,
        rate: limit.rate.map(|rate| format!("{}/{}", rate.jobs, format_duration(rate.per))),
    }
}
