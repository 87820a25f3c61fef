//! Rust peers of Longhaul on Postgres: one scenario of one of them, one JSON line.
//!
//! Usage: bench-peers PEER SCENARIO --database URL --jobs N --concurrency N --input-bytes N [--marks]
//!
//! `bench/run --postgres` starts it with an empty database for each scenario.

mod harness;
mod load;
mod peers;
mod plan;

use plan::Plan;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let plan = Plan::from_args(std::env::args().skip(1))?;
    let report = match plan.peer.as_str() {
        "river" => harness::run::<peers::river::River>(&plan).await?,
        "graphile_worker" => harness::run::<peers::graphile_worker::GraphileWorker>(&plan).await?,
        "apalis" => harness::run::<peers::apalis::Apalis>(&plan).await?,
        "dbos_rust" => harness::run::<peers::dbos::Dbos>(&plan).await?,
        other => anyhow::bail!("no peer {other}"),
    };
    println!("{report}");
    // Exits without waiting for sleeping threads: all results are on disk.
    std::process::exit(0);
}
