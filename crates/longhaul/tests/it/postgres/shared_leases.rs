//! Leases that jobs of one claim share, until something other than its end happens to one of the jobs.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use longhaul::Clock;
use longhaul::job::{JobId, Status, TenantId};
use longhaul::store::conformance::{LEASE, StoreHarness, done, failed_for_good, settlement};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{Lease, Renewal, StoreError};

use super::database::TestDatabase;
use super::wait::until;

/// Claims of this many jobs share a lease.
const JOBS: usize = 6;

struct SharingStore {
    bench: Arc<StoreHarness>,
    database: Arc<TestDatabase>,
    onlooker: tokio_postgres::Client,
}

impl SharingStore {
    async fn new() -> Self {
        let database = Arc::new(TestDatabase::create().await);
        let clock = StoreHarness::clock();
        let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
        let onlooker = database.connect().await;
        let bench = Arc::new(StoreHarness::new(store, clock).keeping(Arc::clone(&database)));
        Self { bench, database, onlooker }
    }

    /// Claims new jobs, in the order of their ids.
    async fn claim(&self) -> Vec<Lease> {
        let jobs = (0..JOBS).map(|_| self.bench.job()).collect();
        assert!(self.bench.store().submit(jobs).await.iter().all(Result::is_ok));
        let mut leases = self.bench.claim(JOBS).await;
        leases.sort_by_key(|lease| lease.job.id);
        leases
    }

    async fn settle(&self, leases: &[Lease]) {
        let ends = leases.iter().map(|lease| settlement(lease, done())).collect();
        for settled in self.bench.store().settle(ends).await {
            assert_eq!(settled.unwrap().status, Status::Completed);
        }
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM longhaul.{table}");
        self.onlooker.query_one(&sql, &[]).await.unwrap().get(0)
    }

    /// Returns the number of shared leases and of leases that jobs have for themselves.
    async fn leases(&self) -> (i64, i64) {
        (self.count("shared_leases").await, self.count("leases").await)
    }

    async fn status(&self, id: JobId) -> Status {
        self.bench.record(id).await.job.status
    }

    /// Waits until so many sessions of stores wait for locks.
    async fn sessions_wait(&self, sessions: i64) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND application_name = 'longhaul' AND wait_event_type = 'Lock'";
        until("sessions to wait", async || {
            let found: i64 = self.onlooker.query_one(sql, &[]).await.unwrap().get(0);
            (found >= sessions).then_some(())
        })
        .await;
    }
}

fn home() -> TenantId {
    TenantId::default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finished_jobs_of_a_shared_lease_leave_no_lease() {
    let store = SharingStore::new().await;
    let leases = store.claim().await;
    assert_eq!(store.leases().await, (1, 0));
    store.settle(&leases[..2]).await;
    assert_eq!(store.leases().await, (1, 0));
    assert_eq!(store.status(leases[0].job.id).await, Status::Completed);
    assert_eq!(store.status(leases[2].job.id).await, Status::Running);
    store.settle(&leases[2..]).await;
    store.bench.store().rescue(10).await.unwrap();
    assert_eq!(store.leases().await, (0, 0));
    let record = store.bench.record(leases[0].job.id).await;
    let history: Vec<_> = record.history.iter().map(|event| event.status).collect();
    assert_eq!(history, [Status::Pending, Status::Running, Status::Completed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoint_splits_a_shared_lease_and_the_next_claim_of_the_kind_shares_none() {
    let store = SharingStore::new().await;
    let leases = store.claim().await;
    store.settle(&leases[..1]).await;
    store.bench.step(&leases[1], 0, "extract", "12").await.unwrap();
    assert_eq!(store.leases().await, (0, 5));
    store.settle(&leases[1..]).await;
    let again = store.claim().await;
    assert_eq!(store.leases().await, (0, 6));
    store.settle(&again).await;
    store.bench.advance(std::time::Duration::from_mins(1));
    store.claim().await;
    assert_eq!(store.leases().await, (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_of_a_shared_lease_extends_it_for_all_running_jobs() {
    let store = SharingStore::new().await;
    let leases = store.claim().await;
    store.bench.advance(LEASE * 2 / 3);
    let held: Vec<_> = leases.iter().map(Lease::to_ref).collect();
    let renewed = store.bench.store().renew(held, LEASE).await.unwrap();
    assert_eq!(renewed, [Renewal::Kept { cancel_requested: false }; JOBS]);
    store.bench.advance(LEASE * 2 / 3);
    store.bench.store().rescue(10).await.unwrap();
    store.settle(&leases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellation_of_a_job_with_a_shared_lease_concerns_only_this_job() {
    let store = SharingStore::new().await;
    let leases = store.claim().await;
    let cancelled = leases[3].job.id;
    let asked = store.bench.store().cancel(&home(), cancelled).await.unwrap();
    assert!(asked.cancel_requested_at.is_some());
    store.settle(&leases[..3]).await;
    let end = store.bench.settle(&leases[3], done()).await.unwrap();
    assert_eq!(end.status, Status::Completed, "its handler finished before it saw the request");
    store.settle(&leases[4..]).await;
    assert_eq!(store.leases().await, (0, 0));
}

/// A call that a worker makes with its lease. Returns whether it was accepted.
type LeaseCall = fn(Arc<StoreHarness>, Lease) -> BoxFuture<'static, bool>;

/// Regression: a call found no lease of its job, and then no shared lease, because another call had split it in between.
/// It reported the lease as lost, and the attempt was dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_lease_that_is_split_during_a_call_is_not_lost() {
    let store = SharingStore::new().await;
    let calls: [LeaseCall; 3] = [
        |bench, lease| {
            Box::pin(async move {
                let renewed = bench.store().renew(vec![lease.to_ref()], LEASE).await.unwrap();
                renewed == [Renewal::Kept { cancel_requested: false }]
            })
        },
        |bench, lease| {
            Box::pin(async move { bench.step(&lease, 0, "extract", "12").await.is_ok() })
        },
        |bench, lease| {
            Box::pin(async move {
                bench.store().record_work_dir(&lease.to_ref(), "/tmp/job", "here").await.is_ok()
            })
        },
    ];
    for (number, call) in calls.into_iter().enumerate() {
        // So that the claim shares leases, although the last one was split.
        store.bench.advance(std::time::Duration::from_mins(1));
        let leases = store.claim().await;
        assert_eq!(store.leases().await, (1, 0));
        let mut foreign = store.database.connect().await;
        // Holds the call back when it looks for a shared lease: it has found no other one by then.
        let gate = foreign.transaction().await.unwrap();
        let lock = "LOCK TABLE longhaul.shared_leases IN ACCESS EXCLUSIVE MODE";
        gate.batch_execute(lock).await.unwrap();
        let called = tokio::spawn(call(Arc::clone(&store.bench), leases[0].clone()));
        store.sessions_wait(1).await;
        let split = "SELECT longhaul.split_leases(array_agg(tenant_id), array_agg(last_id))
            FROM longhaul.shared_leases";
        gate.execute(split, &[]).await.unwrap();
        gate.commit().await.unwrap();
        assert!(called.await.unwrap(), "call {number}");
        store.settle(&leases).await;
    }
}

/// The other process reads the job from the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_with_an_expired_shared_lease_is_rescued_and_its_worker_fenced() {
    let store = SharingStore::new().await;
    let leases = store.claim().await;
    store.settle(&leases[..1]).await;
    store.bench.advance(LEASE * 2);
    let (url, clock) = (store.database.url(), Clock::manual(store.bench.now()));
    let other = PostgresStore::open(&url, clock.clone()).await.unwrap();
    let other = StoreHarness::new(other, clock);
    other.store().rescue(JOBS).await.unwrap();
    assert_eq!(store.leases().await, (0, 0));
    let late = store.bench.settle(&leases[1], done()).await;
    assert_eq!(late, Err(StoreError::LeaseLost));
    assert_eq!(store.bench.record(leases[0].job.id).await.job.status, Status::Completed);
    for lease in &leases[1..] {
        assert_eq!(other.record(lease.job.id).await.job.status, Status::Pending);
    }
}

/// A failed job that an operator resumes while other jobs of the claim still run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_job_does_not_return_to_its_shared_lease() {
    let store = SharingStore::new().await;
    let leases = store.claim().await;
    let failed = store.bench.settle(&leases[0], failed_for_good()).await.unwrap();
    assert_eq!((failed.status, store.leases().await), (Status::Failed, (1, 0)));
    store.bench.store().resume(&home(), leases[0].job.id).await.unwrap();
    assert_eq!(store.status(leases[0].job.id).await, Status::Pending);
    let again = store.bench.claim_one().await;
    assert_eq!((again.job.id, again.epoch), (leases[0].job.id, 2));
    // Splits the shared lease, which still names the job.
    store.bench.phase(&leases[1], "parsing").await.unwrap();
    assert_eq!(store.leases().await, (0, 6));
    assert_eq!(store.bench.settle(&again, done()).await.unwrap().status, Status::Completed);
    store.settle(&leases[1..]).await;
    assert_eq!(store.leases().await, (0, 0));
}

/// A split must not give a lease to a job whose end is being committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_of_a_shared_lease_waits_for_settlements() {
    let store = SharingStore::new().await;
    let leases = store.claim().await;
    let ended = leases[0].job.id;
    let mut foreign = store.database.connect().await;
    // Holds the settlement back at its final state, which has the key of this row. It has locked the lease by then.
    let gate = foreign.transaction().await.unwrap();
    let same_key = format!(
        "INSERT INTO longhaul.finished (version, epoch, completed_at, steps, attempt, tenant_id, status, id)
        VALUES (3, 1, 0, 0, 1, 'default', 'completed', '{ended}')"
    );
    gate.batch_execute(&same_key).await.unwrap();
    let settling = tokio::spawn({
        let (bench, lease) = (Arc::clone(&store.bench), leases[0].clone());
        async move { bench.settle(&lease, done()).await }
    });
    store.sessions_wait(1).await;
    let cancelling = tokio::spawn({
        let bench = Arc::clone(&store.bench);
        async move { bench.store().cancel(&home(), ended).await }
    });
    store.sessions_wait(2).await;
    gate.rollback().await.unwrap();
    assert_eq!(settling.await.unwrap().unwrap().status, Status::Completed);
    let answer = cancelling.await.unwrap();
    assert!(matches!(answer, Err(StoreError::WrongStatus { .. })), "{answer:?}");
    assert_eq!(store.status(ended).await, Status::Completed);
    assert_eq!(store.leases().await, (0, 5));
    store.settle(&leases[1..]).await;
}
