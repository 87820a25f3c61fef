//! Guide: steps and replay.
//!
//! A job survives crashes because its handler is divided into *steps*. The output of each finished
//! step is stored as a *checkpoint*. When a job runs again, after a crash, a retry, a restart or a
//! sleep, its handler starts from the top and every finished step returns its stored output
//! without running its body. This is called *replay*.
//!
//! ```
//! use longhaul::Ctx;
//! # async fn charge(order: u32) -> std::io::Result<String> { Ok(format!("receipt-{order}")) }
//! # async fn send_mail(receipt: &str) -> std::io::Result<()> { Ok(()) }
//!
//! async fn ship(ctx: Ctx, order: u32) -> longhaul::Result<String> {
//!     let receipt = ctx.step("charge", || charge(order)).await?;
//!     // A crash here does not charge twice: the next attempt reads the receipt.
//!     ctx.step("mail", || send_mail(&receipt)).await?;
//!     Ok(receipt)
//! }
//! ```
//!
//! # Guarantees
//!
//! - A step's body runs **at least once**. It can run again if the process dies after the effect
//!   and before the checkpoint, so that effects must be idempotent. Derive an idempotency key for
//!   the other system from the job's id and the step's name, for example
//!   `format!("{}/charge", ctx.id())`.
//! - A checkpoint is stored **exactly once**, and only by the worker that holds the job's lease.
//! - A job runs as **one live copy**: a worker that loses its lease cannot store anything.
//!
//! # Rules
//!
//! 1. **Names are unique within a job.** In a loop, number them:
//!
//!    ```
//!    # use longhaul::Ctx;
//!    # async fn fetch(page: u32) -> std::io::Result<usize> { Ok(page as usize) }
//!    async fn crawl(ctx: Ctx, pages: u32) -> longhaul::Result<usize> {
//!        let mut bytes = 0;
//!        for page in 0..pages {
//!            bytes += ctx.step(format!("page-{page}"), || fetch(page)).await?;
//!        }
//!        Ok(bytes)
//!    }
//!    ```
//! 2. **Code between steps is deterministic.** It runs again in every attempt. Put the time, random
//!    numbers, and everything that is read from outside into a step:
//!    `ctx.step_value("draw", async || draw())`.
//! 3. **Outputs are JSON.** Return what later steps need, not more: an output may have up to 16 MiB
//!    ([`Limits::step_bytes_max`](crate::job::Limits)). Store files as artifacts.
//! 4. **Steps may run concurrently**, for example with `tokio::try_join!`. They are found by name,
//!    so that their order does not matter.
//!
//! # Errors and retries
//!
//! Any [`std::error::Error`] that a handler returns is retryable: the job is attempted again after
//! a backoff, up to its [`Retry`](crate::Retry) limit. [`JobError::fatal`](crate::JobError::fatal)
//! ends the job at once. A step can retry inside the attempt, which keeps the steps before it in
//! memory and charges no attempt:
//!
//! ```
//! # use std::time::Duration;
//! # use longhaul::{Ctx, JobError, Retry};
//! # async fn fetch(url: &str) -> std::io::Result<String> { Ok(url.to_owned()) }
//! async fn load(ctx: Ctx, url: String) -> longhaul::Result<usize> {
//!     if !url.starts_with("https:") {
//!         return Err(JobError::fatal("only https URLs can be loaded"));
//!     }
//!     let page = ctx
//!         .step("fetch", || fetch(&url))
//!         .retry(Retry::times(5))
//!         .timeout(Duration::from_secs(30))
//!         .await?;
//!     Ok(page.len())
//! }
//! ```
//!
//! # Sleeping
//!
//! [`Ctx::sleep`](crate::Ctx::sleep) suspends a job for minutes or months. It holds no worker and
//! survives restarts, because its end is a checkpoint and the job goes back to the queue.
//!
//! # Changing code
//!
//! Jobs that started with the old code continue with the new code. Replay compares the step names:
//!
//! - Appending steps, and changing the body of a step that has not run yet, is always safe.
//! - If a finished step was renamed, removed, or preceded by a new one, the job fails with the code
//!   `code-changed` and a difference of the two sequences. Resume it with the old code, or continue
//!   with [`Engine::fork`](crate::Engine::fork) from the first step that differs.
//! - A stored output that cannot be deserialized as the step's new type fails the same way. Give
//!   new fields `#[serde(default)]`.
//!
//! [`Kind::code_version`](crate::Kind::code_version) adds the versions to the error.
//!
//! # Testing
//!
//! [`testing::run`](crate::testing::run) runs one handler with its arguments and skips all sleeps.
//! Tests of a whole engine use [`Clock::manual`](crate::Clock::manual), simulations of several engines
//! [`Clock::virtual_time`](crate::Clock::virtual_time).
