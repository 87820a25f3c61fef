//! Three steps that survive `kill -9`.
//!
//! Run `cargo run --example pipeline -- pipeline.db`, kill it while it works, and run it again: the
//! job continues after its last finished step.

use std::io::{Write, stdout};
use std::time::Duration;

use longhaul::{Ctx, Engine, JobArgs, Retry};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Ship {
    order: u32,
}

impl JobArgs for Ship {
    const KIND: &'static str = "ship";
    type Output = String;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "pipeline.db".to_owned());
    let engine = Engine::builder().sqlite(path).handler(ship).start().await?;

    // Because of the key, the second run gets the first run's job instead of shipping twice.
    let job = engine.submit(Ship { order: 4711 }).key("order-4711").await?;
    print(&format!("job {} ({})", job.id(), if job.created() { "new" } else { "existing" }));

    print(&job.result().await?);
    engine.stop().await;
    Ok(())
}

async fn ship(ctx: Ctx, args: Ship) -> longhaul::Result<String> {
    let parcel = ctx.step("pack", || work("packing", args.order)).await?;
    let label = ctx
        .step("label", || work("labelling", parcel))
        .retry(Retry::times(5))
        .timeout(Duration::from_secs(30))
        .await?;
    let tracking = ctx.step("hand over", || work("handing over", label)).await?;
    Ok(format!("order {} is on its way as {tracking}", args.order))
}

/// Stands for a slow call with a side effect.
async fn work(activity: &str, number: u32) -> longhaul::Result<u32> {
    print(&format!("{activity} {number} ..."));
    tokio::time::sleep(Duration::from_millis(700)).await;
    Ok(number + 1)
}

/// Flushes each line, so that it is visible even if the process is killed right after it.
fn print(text: &str) {
    let mut out = stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).ok();
}
