//! The smallest engine: one kind, one job, its result. `cargo run --example hello -- Ada`

use longhaul::{Ctx, Engine, JobArgs};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl JobArgs for Greet {
    const KIND: &'static str = "greet";
    type Output = String;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().handler(greet).start().await?;

    let name = std::env::args().nth(1).unwrap_or_else(|| "world".to_owned());
    let job = engine.submit(Greet { name }).await?;
    println!("{}", job.await?);

    engine.stop().await;
    Ok(())
}

async fn greet(_ctx: Ctx, args: Greet) -> longhaul::Result<String> {
    Ok(format!("Hello, {}!", args.name))
}
