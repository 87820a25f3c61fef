//! What is Postgres' own: databases to test in, and all that can go wrong with one.

mod cluster;
mod cuts;
mod database;
mod deadlocks;
mod migrations;
mod pinned;
mod proxy;
mod restarts;
mod stalls;
mod turns;
mod wait;

pub(crate) use database::{TestDatabase, bench, open_now};
pub(crate) use turns::{ByTurns, bench_by_turns};
