//! The built-in kinds of jobs.
//!
//! - [`demo()`]: runs steps, sleeps, fails or returns a result, as its input specifies.
//! - [`command`]: runs a program, or a durable pipeline of programs.
//! - [`http`]: sends a request to an HTTP endpoint.
//! - [`chat`]: calls a language model.
//! - `render`: renders diagrams; behind the feature `render`.
//!
//! Each is a plain [`longhaul::Kind`]; register it with an engine:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul::Engine;
//! use longhaul_kinds::demo;
//! use serde_json::{Value, json};
//!
//! let engine = Engine::builder().memory().register(demo()).start().await?;
//! let job = engine.submit_raw("demo", &json!({"steps": 3, "result": "done"})).await?;
//! assert_eq!(job.result_as::<Value>().await?, "done");
//! # engine.stop().await; Ok(()) }
//! ```

pub mod chat;
pub mod command;
mod demo;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod http;
#[cfg(feature = "render")]
pub mod render;

pub use demo::demo;

use longhaul::{Ctx, JobError};

fn job_error(is_retryable: bool, message: String, code: &str) -> JobError {
    if is_retryable { JobError::retryable(message) } else { JobError::fatal(message) }
        .with_code(code)
}

/// Runs `work` until it ends or the job is cancelled. Starts nothing for a cancelled job.
async fn unless_cancelled<T>(ctx: &Ctx, work: impl Future<Output = T>) -> Result<T, JobError> {
    if !ctx.is_cancelled() {
        tokio::select! {
            biased;
            done = work => return Ok(done),
            () = ctx.cancelled() => {}
        }
    }
    Err(JobError::fatal("the job was cancelled").with_code("cancelled"))
}
