//! Tests of the Postgres store only: test databases, clusters, and failures of the database.

mod alternating_store;
mod clock_steps;
mod cluster;
mod cost;
mod database;
mod deadlocks;
mod failover;
mod frozen_connections;
mod lost_responses;
mod maintenance;
mod migrations;
mod notifications;
mod output_streams;
mod pgbouncer;
mod proxy;
mod quarantine;
mod restarts;
mod row_security;
mod serialization;
mod shared_leases;
mod stalls;
mod tls;
mod usage;
mod wait;

pub(crate) use alternating_store::{AlternatingStore, alternating_harness};
pub(crate) use database::{TestDatabase, harness, open_now, sharing_harness};
pub(crate) use pgbouncer::pgbouncer_harness;
