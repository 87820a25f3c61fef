//! Migration from a SQLite store to a Postgres store.

mod tables;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use longhaul::job::{Name, Outcome, Progress, Record, Step, Usage};
use longhaul::store::conformance::{
    StoreHarness, done, failed, failed_for_good, name, settlement, tenant,
};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{
    Claim, KindCapacity, NewBlob, NewJob, Report, Settlement, Start, Store, StoreError, WrappedKey,
};
use longhaul::store::{JobStore as _, MaintenanceStore as _, ReplicaStore as _, WorkerStore as _};
use longhaul::transfer::{TransferError, TransferStage, TransferSummary, sqlite_to_postgres};
use longhaul::{Clock, JobId, Status, TenantId};
use tokio_postgres::Client;

use crate::postgres::TestDatabase;
use crate::support::total_usage;

/// A source, a target, and a second connection to the target's database.
struct Move {
    from: SqliteStore,
    to: PostgresStore,
    client: Client,
    clock: Clock,
    _database: TestDatabase,
}

impl Move {
    async fn new() -> Self {
        let clock = StoreHarness::clock();
        Self::of(SqliteStore::memory(clock.clone()).unwrap(), clock).await
    }

    async fn of(from: SqliteStore, clock: Clock) -> Self {
        let database = TestDatabase::create().await;
        Self {
            from,
            to: PostgresStore::open(&database.url(), clock.clone()).await.unwrap(),
            client: database.connect().await,
            clock,
            _database: database,
        }
    }

    async fn copy(&self) -> Result<TransferSummary, TransferError> {
        sqlite_to_postgres(&self.from, &self.to, |_| ControlFlow::Continue(())).await
    }

    async fn tamper(&self, sql: &str) {
        assert_eq!(self.client.execute(sql, &[]).await.unwrap(), 1, "{sql}");
    }
}

/// Returns a harness that creates jobs for a store outside it.
fn maker(clock: &Clock) -> StoreHarness {
    StoreHarness::new(SqliteStore::memory(clock.clone()).unwrap(), clock.clone())
}

fn want(limit: usize) -> Claim {
    let demo =
        KindCapacity { kind: name("demo"), capacity: limit, code_version: Some("v\0 7".into()) };
    Claim {
        replica: "r".into(),
        limit,
        lease: Duration::from_secs(15),
        kinds: vec![demo],
        limits: Arc::default(),
        queue_capacity: None,
    }
}

async fn accept(store: &SqliteStore, job: NewJob) -> JobId {
    store.submit(vec![job]).await.remove(0).unwrap().record.job.id
}

/// Returns a blob record with this path.
fn blob(path: &str) -> NewBlob {
    NewBlob {
        path: path.to_owned(),
        name: "report".to_owned(),
        content_type: "text/plain".to_owned(),
        size: 7,
        digest: [3; 32],
        key: WrappedKey(vec![0, 1, 255]),
        replica: "here".to_owned(),
    }
}

/// Submits a job and ends its attempt.
async fn run(store: &SqliteStore, job: NewJob, outcome: Option<Outcome>) -> JobId {
    let id = accept(store, job).await;
    let lease = store.claim(&want(1)).await.unwrap().leases.remove(0);
    assert_eq!(lease.job.id, id);
    for (position, step) in ["load", "parse"].into_iter().enumerate() {
        let checkpoint = longhaul::store::Checkpoint {
            lease: lease.to_ref(),
            name: step.to_owned(),
            position: u32::try_from(position).unwrap(),
            output: longhaul::store::conformance::json(r#"{"text":"\u0000 ä"}"#),
            alone: true,
            started_at: store.now(),
        };
        store.checkpoint(checkpoint).await.unwrap();
    }
    let progress = Progress { done: 3, total: Some(9), message: Some("p\0".to_owned()) };
    let (phases, lease) = (vec!["parsing".to_owned()], lease.to_ref());
    if let Some(outcome) = outcome {
        let artifacts = vec![blob(&format!("default/{id}/report"))];
        let end = Settlement {
            lease,
            outcome,
            phases,
            progress: Some(progress),
            artifacts,
            tokens: longhaul::job::Tokens::default(),
        };
        store.settle(vec![end]).await.remove(0).unwrap();
    } else {
        let report = Report { lease, phases, progress: Some(progress) };
        store.report(vec![report]).await.remove(0).unwrap();
    }
    id
}

/// Creates jobs of the default tenant in every state and returns their ids by state.
async fn every_state(store: &SqliteStore, clock: &Clock) -> BTreeMap<&'static str, JobId> {
    let (make, mine) = (maker(clock), TenantId::default());
    let mut jobs = BTreeMap::new();
    jobs.insert("completed", run(store, make.keyed("key-1"), Some(done())).await);
    jobs.insert("failed", run(store, make.job(), Some(failed_for_good())).await);
    let resumed = run(store, make.job(), Some(failed_for_good())).await;
    let forked = make.id();
    store.fork(&mine, resumed, forked, Some("parse")).await.unwrap();
    store.cancel(&mine, forked).await.unwrap();
    jobs.insert("forked", forked);
    let retried = run(store, make.job(), Some(failed())).await;
    let purged = run(store, make.job(), Some(done()));
    // The retried job is due; it is cancelled so that the next claim does not take it.
    store.cancel(&mine, retried).await.unwrap();
    let purged = purged.await;
    store.purge(&mine, purged).await.unwrap();
    jobs.insert("purged", purged);
    let running = run(store, make.job(), None).await;
    jobs.insert("running", running);
    let asked = run(store, make.job(), None).await;
    store.cancel(&mine, asked).await.unwrap();
    jobs.insert("asked to stop", asked);
    store.resume(&mine, retried).await.unwrap();
    jobs.insert("retried", retried);
    store.resume(&mine, resumed).await.unwrap();
    jobs.insert("resumed", resumed);
    let labels = [("a\0".to_owned(), "b ä".to_owned())].into();
    let scheduled = NewJob {
        start: Start::In(Duration::from_hours(1)),
        timeout: Some(Duration::from_secs(7)),
        labels,
        payload: Some(blob("default/scheduled")),
        priority: -5,
        ..make.keyed("key-2")
    };
    jobs.insert("scheduled", accept(store, scheduled).await);
    let held_back = NewJob { queue: name("slow"), ..make.job() };
    store.pause_queue(&mine, &name("slow"), true).await.unwrap();
    jobs.insert("held back", accept(store, held_back).await);
    jobs
}

/// Returns the number of rows of a table in the summary.
fn rows_of(copied: &TransferSummary, table: &str) -> u64 {
    copied.tables.iter().find(|digest| digest.name == table).unwrap().rows
}

async fn both(here: &Move, id: JobId) -> (Record, Record) {
    let mine = TenantId::default();
    (here.from.job(&mine, id).await.unwrap(), here.to.job(&mine, id).await.unwrap())
}

async fn steps(store: &dyn Store, id: JobId) -> Vec<(String, String)> {
    let text = |step: Step| (step.name, step.output.as_str().to_owned());
    let steps = store.steps(&TenantId::default(), id).await.unwrap();
    steps.into_iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_copies_jobs_of_every_state_unchanged() {
    let here = Move::new().await;
    let jobs = every_state(&here.from, &here.clock).await;
    let make = maker(&here.clock);
    accept(&here.from, make.job_of(&tenant("zebra"))).await;
    let copied = here.copy().await.unwrap();
    assert_eq!((copied.jobs, copied.known), (10, 0));
    assert_eq!((rows_of(&copied, "tombstones"), rows_of(&copied, "paused_queues")), (1, 1));
    assert_eq!(rows_of(&copied, "blobs"), 3, "of two completed jobs and a scheduled one");
    let tenants: Vec<_> =
        copied.tenants.iter().map(|(tenant, sum)| (tenant.as_str(), sum.jobs, sum.steps)).collect();
    assert_eq!(tenants, [("default", 9, 13), ("zebra", 1, 0)]);
    for what in ["completed", "failed", "forked", "retried", "resumed", "held back"] {
        let (was, is) = both(&here, jobs[what]).await;
        let unlike = |record: &Record| {
            let mut record = record.clone();
            record.job.code_version = None;
            format!("{record:?}")
        };
        assert_eq!(unlike(&was), unlike(&is), "{what}");
        let mine = TenantId::default();
        let stored = here.from.blobs(&mine, jobs[what]).await.unwrap();
        assert_eq!(stored.is_empty(), what != "completed", "{what}");
        assert_eq!(here.to.blobs(&mine, jobs[what]).await.unwrap(), stored, "{what}");
        assert_eq!(
            steps(&here.from, jobs[what]).await,
            steps(&here.to, jobs[what]).await,
            "{what}"
        );
        let mine = TenantId::default();
        let inputs =
            (here.from.input(&mine, jobs[what]).await, here.to.input(&mine, jobs[what]).await);
        assert_eq!(inputs.0.unwrap().as_str(), inputs.1.unwrap().as_str());
    }
    let (_, scheduled) = both(&here, jobs["scheduled"]).await;
    assert_eq!(scheduled.job.labels["a\u{fffd}"], "b ä", "what Postgres cannot keep");
    let gone = here.to.job(&TenantId::default(), jobs["purged"]).await.unwrap_err();
    assert_eq!(gone, StoreError::Gone);
    let queues = here.to.queues(&TenantId::default()).await.unwrap();
    let paused: Vec<_> = queues.iter().filter(|queue| queue.paused).collect();
    assert_eq!((paused.len(), paused[0].name.as_str(), paused[0].pending), (1, "slow", 1));
    let again = make.keyed("key-1");
    let known = here.to.submit(vec![again]).await.remove(0).unwrap();
    assert_eq!((known.record.job.id, known.created), (jobs["completed"], false));
}

#[tokio::test(flavor = "multi_thread")]
async fn transferred_running_job_continues_uncharged_and_a_cancelling_one_is_stopped() {
    let here = Move::new().await;
    let jobs = every_state(&here.from, &here.clock).await;
    here.copy().await.unwrap();
    let (was, is) = both(&here, jobs["running"]).await;
    assert_eq!((was.job.status, is.job.status), (Status::Running, Status::Pending));
    assert_eq!((is.job.attempt, is.job.version), (1, was.job.version + 1));
    assert_eq!(is.history.len(), was.history.len() + 1);
    let (_, stopped) = both(&here, jobs["asked to stop"]).await;
    assert_eq!(stopped.job.status, Status::Cancelled);
    let leases = here.to.claim(&want(9)).await.unwrap().leases;
    let claimed: Vec<JobId> = leases.iter().map(|lease| lease.job.id).collect();
    assert_eq!(claimed.len(), 3, "neither what is paused nor what is not due: {claimed:?}");
    let went_on = leases.iter().find(|lease| lease.job.id == jobs["running"]).unwrap();
    assert_eq!((went_on.job.attempt, went_on.steps.len()), (1, 2));
    let resumed = leases.iter().find(|lease| lease.job.id == jobs["resumed"]).unwrap();
    assert_eq!((resumed.job.attempt, resumed.job.max_attempts, resumed.steps.len()), (2, 4, 2));
    assert!(claimed.contains(&jobs["retried"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_transfer_continues_at_its_last_position() {
    let here = Move::new().await;
    every_state(&here.from, &here.clock).await;
    // Otherwise the new jobs would get the ids of the first ones.
    here.clock.advance(Duration::from_millis(1));
    let make = maker(&here.clock);
    let more: Vec<NewJob> = (0..1200).map(|_| make.job()).collect();
    here.from.submit(more).await;
    let mut seen = 0;
    let stopped = sqlite_to_postgres(&here.from, &here.to, |progress| {
        seen = progress.done;
        if progress.done >= 1000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await;
    assert!(matches!(stopped, Err(TransferError::Interrupted)), "{stopped:?}");
    assert_eq!(seen, 1000);
    let mut stages = Vec::new();
    let copied = sqlite_to_postgres(&here.from, &here.to, |progress| {
        stages.push((progress.stage, progress.done, progress.total));
        ControlFlow::Continue(())
    })
    .await
    .unwrap();
    assert_eq!((copied.jobs, copied.known), (209, 1000));
    assert_eq!(stages.last(), Some(&(TransferStage::Checking, 1209, 1209)));
    let again = here.copy().await.unwrap();
    assert_eq!((again.jobs, again.known, again.tenants), (0, 1209, copied.tenants));
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_reports_a_target_that_differs() {
    let here = Move::new().await;
    let jobs = every_state(&here.from, &here.clock).await;
    here.copy().await.unwrap();
    let completed = jobs["completed"];
    for (table, change) in [
        ("finished", "result = '1'"),
        ("jobs", "input = '1'"),
        ("finished", "version = version + 1"),
        ("jobs", "history = '{}'"),
        ("finished", "events = '{}'"),
    ] {
        let keep = format!("CREATE TABLE kept AS TABLE longhaul.{table}");
        here.client.batch_execute(&keep).await.unwrap();
        here.tamper(&format!("UPDATE longhaul.{table} SET {change} WHERE id = '{completed}'"))
            .await;
        let Err(TransferError::Differs { count: 1, jobs }) = here.copy().await else {
            panic!("{change} went unseen")
        };
        assert_eq!(jobs, [(TenantId::default(), completed)], "{change}");
        let undo = format!(
            "TRUNCATE longhaul.{table}; INSERT INTO longhaul.{table} TABLE kept; DROP TABLE kept"
        );
        here.client.batch_execute(&undo).await.unwrap();
    }
    here.tamper(&format!(
        "UPDATE longhaul.steps SET output = '1' WHERE id = '{completed}' AND name = 'load'"
    ))
    .await;
    assert!(matches!(here.copy().await, Err(TransferError::Differs { count: 1, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_reports_changes_between_copy_and_check() {
    let here = Move::new().await;
    let jobs = every_state(&here.from, &here.clock).await;
    let sql = format!("DELETE FROM longhaul.jobs WHERE id = '{}'", jobs["failed"]);
    let told = sqlite_to_postgres(&here.from, &here.to, |progress| {
        if progress.stage == TransferStage::Copying && progress.done > 0 {
            let deleted = here.tamper(&sql);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(deleted));
        }
        ControlFlow::Continue(())
    })
    .await;
    assert!(matches!(told, Err(TransferError::Differs { count: 1, .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_rejects_a_target_with_other_jobs() {
    let here = Move::new().await;
    let make = maker(&here.clock);
    accept(&here.from, make.job()).await;
    here.clock.advance(Duration::from_millis(1));
    let other = here.to.submit(vec![make.job()]).await.remove(0).unwrap().record.job.id;
    let Err(TransferError::OtherData { tables }) = here.copy().await else {
        panic!("it copied jobs into a database with others")
    };
    let names: Vec<_> = tables.iter().map(|table| (table.name, table.foreign)).collect();
    assert_eq!(names, [("jobs", 1)]);
    assert_eq!(tables[0].rows, [format!("default/{other}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_rejects_a_duplicate_idempotency_key_and_a_live_replica() {
    let here = Move::new().await;
    let make = maker(&here.clock);
    accept(&here.from, make.keyed("key-1")).await;
    let told = sqlite_to_postgres(&here.from, &here.to, |progress| {
        if (progress.stage, progress.done) == (TransferStage::Copying, 0) {
            let submitted = here.to.submit(vec![make.keyed("key-1")]);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(submitted))
                .remove(0)
                .unwrap();
        }
        ControlFlow::Continue(())
    })
    .await;
    assert!(matches!(told, Err(TransferError::Refused { count: 1, .. })), "{told:?}");
    let beat = longhaul::store::Heartbeat {
        replica: "alive".to_owned(),
        run: 1,
        role: "all".to_owned(),
        version: String::new(),
        host: String::new(),
        pid: 1,
        process: String::new(),
        kinds: vec![Name::new("demo").unwrap()],
        running: 0,
        concurrency: 1,
        silent_after: Duration::from_secs(15),
    };
    here.to.heartbeat(&beat).await.unwrap();
    let told = here.copy().await;
    assert!(matches!(told, Err(TransferError::TargetInUse { .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_transfer_copies_usage_once() {
    let here = Move::new().await;
    let make = maker(&here.clock);
    let keyed = NewJob { key_id: Some("key-1".to_owned()), ..make.job() };
    let lease = here.from.submit(vec![keyed]).await.remove(0).unwrap().record.job.id;
    here.from.cancel(&TenantId::default(), lease).await.unwrap();
    here.clock.advance(Duration::from_millis(1));
    let jobs = every_state(&here.from, &here.clock).await;
    let Usage { jobs: ended, steps, .. } = total_usage(&here.from).await;
    for _ in 0..2 {
        let copied = here.copy().await.unwrap();
        assert_eq!(rows_of(&copied, "usage"), 2, "with a key and without");
        // The job with a cancellation request is stopped by the transfer, with two steps.
        let want = Usage { jobs: ended + 1, steps: steps + 2, ..Usage::default() };
        assert_eq!(total_usage(&here.to).await, want);
        here.to.roll_up_usage(100).await.unwrap();
    }
    // New usage at the target is added, and metered usage is not metered again.
    let leases = here.to.claim(&want(9)).await.unwrap().leases;
    here.clock.advance(Duration::from_secs(1));
    for (what, new) in [("resumed", 0), ("running", 1)] {
        let before = total_usage(&here.to).await;
        let lease = leases.iter().find(|lease| lease.job.id == jobs[what]).unwrap();
        let end = settlement(lease, done());
        here.to.settle(vec![end]).await.remove(0).unwrap();
        let after = total_usage(&here.to).await;
        assert_eq!(
            (after.jobs - before.jobs, after.run_ms - before.run_ms),
            (new, 1_000),
            "{what}"
        );
        assert_eq!(after.steps - before.steps, new * 2, "{what}");
    }
}
