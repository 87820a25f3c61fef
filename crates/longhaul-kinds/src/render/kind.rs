//! The kind itself: a picture is an artifact of its job.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use longhaul::job::Name;
use longhaul::{Ctx, JobError, Kind};
use serde::{Deserialize, Serialize};

use super::pool::{Pool, Trouble};
use super::{Limits, Request};

/// The engine gives an attempt up only well after this kind has.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// What it is.
    pub content_type: String,
    /// How long it is.
    pub bytes: usize,
}

/// Describes the kind whose jobs are diagrams.
///
/// ```
/// use longhaul_kinds::render::RenderKind;
///
/// // A program that calls `longhaul_kinds::render::serve`.
/// let render = RenderKind::new(["/usr/bin/longhaul", "render-worker"]).build().concurrency(2);
/// ```
#[must_use = "describes a kind; `build` makes it"]
#[derive(Debug, Clone)]
pub struct RenderKind {
    worker: Vec<OsString>,
    limits: Limits,
}

impl RenderKind {
    /// Its name.
    pub const NAME: &str = "render";

    /// A kind whose diagrams are drawn by this program, with these arguments.
    pub fn new(worker: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { worker: worker.into_iter().map(Into::into).collect(), limits: Limits::default() }
    }

    /// How much a picture may cost. The program is told.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Makes the kind. Nothing is started yet.
    pub fn build(self) -> Kind {
        let timeout = self.limits.time_max.saturating_add(TIMEOUT_MARGIN);
        let pool = Arc::new(Pool::new(self.worker, self.limits));
        let run = move |ctx: Ctx, request: Request| run(Arc::clone(&pool), ctx, request);
        Kind::new(Self::NAME, run)
            .payload(false)
            .queue(queue())
            .timeout(timeout)
            .description("draws a diagram: mermaid or d2, to svg or png")
            .input_schema(include_str!("input.schema.json"))
    }
}

/// Diagrams wait in a line of their own: they are quick, and others' jobs may be slow.
pub fn queue() -> Name {
    Name::new(RenderKind::NAME).unwrap_or_else(|_| Name::default_queue())
}

async fn run(pool: Arc<Pool>, ctx: Ctx, request: Request) -> Result<Rendered, JobError> {
    // Most pictures are drawn before their phase is written.
    let drawing = async { tokio::join!(ctx.phase("rendering"), pool.picture(&request)) };
    let picture = tokio::select! {
        biased;
        (told, picture) = drawing => {
            told?;
            picture.map_err(Trouble::into_job_error)?
        }
        () = ctx.cancelled() => {
            return Err(JobError::fatal("the job was asked to stop").with_code("cancelled"));
        }
    };
    let (kind, bytes) = (request.output_type, picture.len());
    let mut artifact = ctx.artifact(kind.artifact(), kind.content_type())?;
    artifact.write(picture.into()).await?;
    artifact.finish().await?;
    Ok(Rendered { content_type: kind.content_type().to_owned(), bytes })
}
