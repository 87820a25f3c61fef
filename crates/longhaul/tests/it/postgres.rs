//! What is Postgres' own: databases to test in, and all that can go wrong with one.

mod alternating_store;
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
mod usage;
mod wait;
mod waking;
mod wall;

pub(crate) use alternating_store::{AlternatingStore, alternating_harness};
pub(crate) use bouncer::pgbouncer_harness;
pub(crate) use database::{TestDatabase, harness, open_now};
