//! Three steps that survive `kill -9`.
//!
//! Run `cargo run --example pipeline -- pipeline.db`, kill it while it works, and run it again: the
//! job is still there, what was finished is not done again, and the rest is.

use std::io::{Write, stdout};
use std::time::Duration;

use longhaul::{Ctx, Engine, JobError, Retry};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "pipeline.db".to_owned());
    let engine = Engine::builder().sqlite(path).kind("ship", ship).start().await?;

    // The key makes the second run find the first run's job instead of shipping twice.
    let order = Order { number: 4711 };
    let job = engine.submit_raw("ship", &order).key("order-4711").await?;
    say(&format!("job {} ({})", job.id(), if job.created() { "new" } else { "known" }));

    let receipt: String = job.result().await?;
    say(&receipt);
    engine.stop().await;
    Ok(())
}

async fn ship(ctx: Ctx, order: Order) -> Result<String, JobError> {
    let parcel = ctx.step("pack", || work("packing", order.number)).await?;
    let label = ctx
        .step("label", || work("labelling", parcel))
        .retry(Retry::times(5))
        .timeout(Duration::from_secs(30))
        .await?;
    let tracking = ctx.step("hand over", || work("handing over", label)).await?;
    Ok(format!("order {} is on its way as {tracking}", order.number))
}

/// Something slow that one does not want to do twice.
async fn work(what: &str, number: u32) -> Result<u32, JobError> {
    say(&format!("{what} {number} ..."));
    tokio::time::sleep(Duration::from_millis(700)).await;
    Ok(number + 1)
}

/// Flushed, so that it is out even if we are killed the next moment.
fn say(line: &str) {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}
