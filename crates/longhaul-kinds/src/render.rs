//! The kind `render`: mermaid and d2 diagrams as SVG or PNG.
//!
//! # Input
//!
//! ```json
//! {"source": "flowchart LR\n  A --> B", "format": "mermaid", "outputType": "svg",
//!  "options": {"theme": "dark", "background": "transparent"}}
//! ```
//!
//! All `options` are optional: `theme` (`light`, `dark`), `background` (`#rrggbb`, `transparent`), and for
//! PNG either `scale` or `width`. A theme that the source itself sets wins.
//!
//! # Result
//!
//! The image is the artifact `diagram.svg` or `diagram.png`; the result is `{"contentType", "bytes"}`.
//! An invalid source fails the job without a retry, with the code `syntax`, `unsupported`, `too-large` or
//! `took-too-long` and, if known, the position.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use longhaul::job::Name;
use longhaul::{Ctx, JobError, Kind};
use longhaul_render::{ErrorCode, PoolError, RenderLimits, RenderRequest, WorkerPool};
use serde::{Deserialize, Serialize};

/// Time that the engine's timeout exceeds [`RenderLimits::time_max`], so that this kind's own error wins.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderResult {
    pub content_type: String,
    pub bytes: usize,
}

/// Builder of the kind `render`.
///
/// ```
/// use longhaul_kinds::render::RenderKind;
///
/// // A program that calls `longhaul_render::run_worker`.
/// let render = RenderKind::new(["/usr/bin/longhaul", "render-worker"]).build().concurrency(2);
/// ```
#[must_use = "call `build` to create the kind"]
#[derive(Debug, Clone)]
pub struct RenderKind {
    worker: Vec<OsString>,
    limits: RenderLimits,
}

impl RenderKind {
    pub const NAME: &str = "render";

    /// Renders with this program and arguments as the worker process.
    pub fn new(worker: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            worker: worker.into_iter().map(Into::into).collect(),
            limits: RenderLimits::default(),
        }
    }

    /// Sets the limits of one diagram. The worker process enforces them.
    pub fn limits(mut self, limits: RenderLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Creates the kind. Worker processes start with the first job.
    pub fn build(self) -> Kind {
        let timeout = self.limits.time_max.saturating_add(TIMEOUT_MARGIN);
        let pool = Arc::new(WorkerPool::new(self.worker, self.limits));
        let run = move |ctx: Ctx, request: RenderRequest| run(Arc::clone(&pool), ctx, request);
        Kind::new(Self::NAME, run)
            .accepts_payload(false)
            .queue(queue())
            .timeout(timeout)
            .description("renders a mermaid or d2 diagram to SVG or PNG")
            .input_schema(include_str!("render/input.schema.json"))
    }
}

/// Returns the default queue of render jobs, separate because they are short and other jobs may be
/// long.
pub fn queue() -> Name {
    Name::new(RenderKind::NAME).unwrap_or_else(|_| Name::default_queue())
}

async fn run(
    pool: Arc<WorkerPool>,
    ctx: Ctx,
    request: RenderRequest,
) -> Result<RenderResult, JobError> {
    // Concurrently, because rendering usually takes less time than storing the phase.
    let rendering = async { tokio::join!(ctx.phase("rendering"), pool.render(&request)) };
    let (phase, image) = crate::unless_cancelled(&ctx, rendering).await?;
    phase?;
    let image = image.map_err(job_error)?;
    let (output_type, bytes) = (request.output_type, image.len());
    let mut artifact = ctx.artifact(output_type.artifact(), output_type.content_type())?;
    artifact.write(image.into()).await?;
    artifact.finish().await?;
    Ok(RenderResult { content_type: output_type.content_type().to_owned(), bytes })
}

fn job_error(error: PoolError) -> JobError {
    match error {
        PoolError::Rejected(error) => JobError::fatal(&error).with_code(error.code.as_str()),
        PoolError::Worker(error) => {
            JobError::retryable(format_args!("the render worker process failed: {error}"))
                .with_code(ErrorCode::RendererFailed.as_str())
        }
    }
}
