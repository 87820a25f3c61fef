//! What is Postgres' own: databases to test in, and all that can go wrong with one.

mod aside;
mod bouncer;
mod cluster;
mod cuts;
mod database;
mod deadlocks;
mod failover;
mod migrations;
mod pinned;
mod proxy;
mod restarts;
mod stalls;
mod tls;
mod turns;
mod usage;
mod wait;
mod waking;
mod wall;

pub(crate) use bouncer::bench_behind_pgbouncer;
pub(crate) use database::{TestDatabase, bench, open_now};
pub(crate) use turns::{ByTurns, bench_by_turns};
