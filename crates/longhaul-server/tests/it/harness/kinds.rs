//! Kinds that every test server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::job::Json;
use longhaul::{Ctx, JobError, Kind, Retry};
use tokio::sync::Semaphore;

/// Returns `echo`, `gated` (finishes when the gate has a permit), `steps` and `fails`.
pub(super) fn all(gate: &Arc<Semaphore>, runs: &Arc<AtomicUsize>) -> [Kind; 4] {
    [
        echo(Arc::clone(runs)),
        gated(Arc::clone(gate), Arc::clone(runs)),
        Kind::new("steps", steps).retry(Retry::times(1)),
        Kind::new("fails", fails).retry(Retry::times(1)),
    ]
}

fn echo(runs: Arc<AtomicUsize>) -> Kind {
    Kind::new("echo", move |_: Ctx, input: Json| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, JobError>(input) }
    })
}

fn gated(gate: Arc<Semaphore>, runs: Arc<AtomicUsize>) -> Kind {
    Kind::new("gated", move |_: Ctx, input: Json| {
        runs.fetch_add(1, Ordering::SeqCst);
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok::<_, JobError>(input)
        }
    })
}

async fn steps(ctx: Ctx, _: Json) -> Result<u32, JobError> {
    let one: u32 = ctx.step("one", || async { Ok::<_, JobError>(1) }).await?;
    let two: u32 = ctx.step("two", || async { Ok::<_, JobError>(2) }).await?;
    Ok(one + two)
}

pub(super) async fn fails(_: Ctx, _: Json) -> Result<(), JobError> {
    Err(JobError::fatal("the disk is made of cheese").with_code("cheese"))
}
