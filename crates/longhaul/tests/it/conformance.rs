//! Every store and every wrapper passes the one suite.

use std::sync::Arc;

use longhaul::store::conformance::Bench;
use longhaul::store::faulty::{FaultPlan, Faulty};
use longhaul::store::sqlite::SqliteStore;

use crate::reference::Reference;

fn sqlite_file() -> Bench {
    let (clock, folder) = (Bench::clock(), tempfile::tempdir().unwrap());
    let path = folder.path().join("jobs.db");
    let open = move |clock| SqliteStore::open(&path, clock).unwrap();
    Bench::new(open(clock.clone()), clock).reopened_by(open).keeping(folder)
}

fn sqlite_memory() -> Bench {
    let clock = Bench::clock();
    Bench::new(SqliteStore::memory(clock.clone()).unwrap(), clock)
}

fn faulty_without_faults() -> Bench {
    let clock = Bench::clock();
    let store = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
    Bench::new(Faulty::new(store, FaultPlan::none()), clock)
}

fn reference() -> Bench {
    let clock = Bench::clock();
    Bench::new(Reference::new(clock.clone()), clock)
}

longhaul::store_conformance!(in_sqlite_file, sqlite_file());
longhaul::store_conformance!(in_sqlite_memory, sqlite_memory());
longhaul::store_conformance!(in_faulty_without_faults, faulty_without_faults());
longhaul::store_conformance!(in_reference, reference());
longhaul::store_conformance!(in_postgres, crate::postgres::bench().await);
longhaul::store_conformance!(in_postgres_by_turns, crate::postgres::bench_by_turns().await);
