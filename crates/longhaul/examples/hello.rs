//! The smallest engine: one kind, one job, its result. `cargo run --example hello -- Ada`

use longhaul::{Ctx, Engine, JobError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().kind("greet", greet).start().await?;

    let name = std::env::args().nth(1).unwrap_or_else(|| "world".to_owned());
    let job = engine.submit_raw("greet", &name).await?;
    let greeting: String = job.result().await?;
    println!("{greeting}");

    engine.stop().await;
    Ok(())
}

async fn greet(_ctx: Ctx, name: String) -> Result<String, JobError> {
    Ok(format!("Hello, {name}!"))
}
