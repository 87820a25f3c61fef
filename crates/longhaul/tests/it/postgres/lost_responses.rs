//! Connections that are cut during a commit: the store looks up the outcome and never guesses it.

use std::sync::Arc;

use longhaul::job::{Record, Status, TenantId};
use longhaul::store::WorkerStore as _;
use longhaul::store::conformance::{StoreHarness, done, failed_for_good, name, settlement};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{Claim, Report, StoreError};

use super::database::TestDatabase;
use super::proxy::{LostMessage, Proxy};

/// A store behind a proxy that loses messages, and one with a direct connection.
struct LossyConnection {
    bench: StoreHarness,
    proxy: Arc<Proxy>,
    database: Arc<TestDatabase>,
}

const BOTH: [LostMessage; 2] = [LostMessage::Question, LostMessage::Answer];

impl LossyConnection {
    async fn new() -> Self {
        let database = Arc::new(TestDatabase::create().await);
        let proxy = Arc::new(Proxy::before(&database.url()).await);
        let clock = StoreHarness::clock();
        let store = PostgresStore::open(&proxy.url(&database.url()), clock.clone()).await.unwrap();
        let bench = StoreHarness::new(store, clock).keeping(Arc::clone(&database));
        Self { bench, proxy, database }
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM longhaul.{table}");
        self.database.connect().await.query_one(&sql, &[]).await.unwrap().get(0)
    }

    /// Runs `work` while the proxy loses the message that contains `text`.
    async fn losing<T>(&self, lost: LostMessage, text: &str, work: impl Future<Output = T>) -> T {
        let before = self.proxy.losses();
        self.proxy.lose(lost, text);
        let answer = work.await;
        assert_eq!(self.proxy.losses(), before + 1, "{text:?} should be lost once ({lost:?})");
        answer
    }

    async fn statuses(&self, record: &Record) -> Vec<Status> {
        self.bench.record(record.job.id).await.history.iter().map(|event| event.status).collect()
    }
}

fn home() -> TenantId {
    TenantId::default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submission_with_a_lost_response_creates_and_returns_one_job() {
    let cut = LossyConnection::new().await;
    for (n, lost) in BOTH.into_iter().enumerate() {
        let keyed = cut.bench.keyed(&format!("key-{n}"));
        for (job, keyed) in [(cut.bench.job(), false), (keyed.clone(), true)] {
            let (jobs, id) = (cut.count("jobs").await, job.id);
            let submitted = cut.losing(lost, "INSERT INTO longhaul.jobs", cut.bench.submit(job));
            let submitted = submitted.await.unwrap();
            assert!(submitted.created, "{lost:?}, keyed: {keyed}");
            assert_eq!(submitted.record.job.id, id);
            assert_eq!(cut.count("jobs").await, jobs + 1, "{lost:?}, keyed: {keyed}");
            assert_eq!(cut.count("ready").await, jobs + 1);
        }
        // A client that retries gets the same job.
        let again = cut.bench.submit(keyed.clone()).await.unwrap();
        assert_eq!((again.created, again.record.job.id), (false, keyed.id));
    }
}

/// A job without a key is inserted without a search for conflicts, which must still find an id that exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submission_that_is_sent_again_returns_its_job_and_stores_the_others() {
    let cut = LossyConnection::new().await;
    let (known, new) = (cut.bench.job(), cut.bench.job());
    assert!(cut.bench.submit(known.clone()).await.unwrap().created);
    let batch = vec![known.clone(), new.clone()];
    let submitted = cut.bench.store().submit(batch).await.into_iter().map(Result::unwrap);
    let told = submitted.map(|one| (one.record.job.id, one.created));
    assert_eq!(told.collect::<Vec<_>>(), [(known.id, false), (new.id, true)]);
    assert_eq!((cut.count("jobs").await, cut.count("ready").await), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_off_with_a_lost_response_returns_its_lease() {
    let cut = LossyConnection::new().await;
    for lost in BOTH {
        let (job, want) = (cut.bench.job(), cut.bench.want(1));
        let (leases, id, store) = (cut.count("leases").await, job.id, cut.bench.store());
        let submitting = store.submit_and_claim(job, &want);
        let handed_off = cut.losing(lost, "INSERT INTO longhaul.jobs", submitting).await;
        let (submitted, lease) = handed_off.unwrap();
        let lease = lease.expect("nothing else is due");
        assert!(submitted.created, "{lost:?}");
        assert_eq!((lease.job.id, lease.epoch, lease.job.attempt), (id, 1, 1), "{lost:?}");
        assert_eq!(cut.count("leases").await, leases + 1);
        cut.bench.settle(&lease, done()).await.unwrap();
        assert_eq!(
            cut.statuses(&submitted.record).await,
            [Status::Pending, Status::Running, Status::Completed]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_with_a_lost_response_claims_each_job_once_and_loses_none() {
    const JOBS: usize = 24;
    let cut = LossyConnection::new().await;
    for _ in 0..JOBS {
        cut.bench.pending().await;
    }
    let mut claimed = Vec::new();
    for text in ["COMMIT", "INSERT INTO longhaul.leases", "FOR UPDATE SKIP LOCKED"] {
        for lost in BOTH {
            if (lost, text) == (LostMessage::Answer, "FOR UPDATE SKIP LOCKED")
                || (lost, text) == (LostMessage::Answer, "INSERT INTO longhaul.leases")
            {
                // Inside a transaction, the server never reaches idle before the cut.
                continue;
            }
            let leases = cut.losing(lost, text, cut.bench.claim(3)).await;
            assert_eq!(leases.len(), 3, "{text}: {lost:?}");
            claimed.extend(leases);
        }
    }
    loop {
        let leases = cut.bench.claim(3).await;
        if leases.is_empty() {
            break;
        }
        claimed.extend(leases);
    }
    let mut ids: Vec<_> = claimed.iter().map(|lease| lease.job.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), claimed.len()), (JOBS, JOBS));
    for lease in &claimed {
        assert_eq!((lease.epoch, lease.job.attempt), (1, 1));
        assert_eq!(lease.input, cut.bench.store().input(&home(), lease.job.id).await.unwrap());
        cut.bench.settle(lease, done()).await.unwrap();
    }
    assert_eq!((cut.count("ready").await, cut.count("leases").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_with_a_lost_response_returns_steps_of_earlier_attempts() {
    let cut = LossyConnection::new().await;
    let lease = cut.bench.running().await;
    cut.bench.step(&lease, 0, "extract", "12").await.unwrap();
    cut.bench.lose(&lease).await;
    let again = cut.losing(LostMessage::Answer, "COMMIT", cut.bench.claim_one()).await;
    assert_eq!((again.job.attempt, again.steps.len()), (2, 1));
    assert_eq!(again.job, cut.bench.record(again.job.id).await.job);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_with_a_lost_response_ends_its_job_once() {
    let cut = LossyConnection::new().await;
    for lost in BOTH {
        let lease = cut.bench.running().await;
        let end = cut.bench.settle(&lease, done());
        let settled = cut.losing(lost, "DELETE FROM longhaul.leases", end).await.unwrap();
        assert_eq!(settled.status, Status::Completed);
        let record = cut.bench.record(lease.job.id).await;
        assert_eq!(record.job.version, settled.version);
        let once = [Status::Pending, Status::Running, Status::Completed];
        assert_eq!(cut.statuses(&record).await, once, "{lost:?}");
    }
    assert_eq!(cut.count("leases").await, 0);
}

/// Jobs that were claimed together share a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_under_a_shared_lease_with_a_lost_response_ends_its_jobs_once() {
    const JOBS: usize = 6;
    let cut = LossyConnection::new().await;
    for lost in BOTH {
        for _ in 0..JOBS {
            cut.bench.pending().await;
        }
        let leases = cut.bench.claim(JOBS).await;
        assert_eq!((leases.len(), cut.count("leases").await), (JOBS, 0), "{lost:?}");
        let ends = leases.iter().map(|lease| settlement(lease, done())).collect();
        let settling = cut.bench.store();
        let settled =
            cut.losing(lost, "INSERT INTO longhaul.finished", settling.settle(ends)).await;
        for (lease, settled) in leases.iter().zip(settled) {
            assert_eq!(settled.unwrap().status, Status::Completed, "{lost:?}");
            let record = cut.bench.record(lease.job.id).await;
            let once = [Status::Pending, Status::Running, Status::Completed];
            assert_eq!(cut.statuses(&record).await, once, "{lost:?}");
        }
        // The settlement that was lost on its way split the lease, and jobs of its kind do not share for a while.
        cut.bench.advance(std::time::Duration::from_mins(2));
    }
    assert_eq!(cut.count("leases").await, 0);
    assert_eq!(cut.count("finished").await, i64::try_from(2 * JOBS).unwrap());
}

/// A job claimed by another process is settled in a transaction of several statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_of_another_process_claim_with_a_lost_response_ends_its_job_once() {
    let cut = LossyConnection::new().await;
    let other = PostgresStore::open(&cut.database.url(), StoreHarness::clock()).await.unwrap();
    for lost in BOTH {
        cut.bench.pending().await;
        let want: Claim = cut.bench.want(1);
        let lease = other.claim(&want).await.unwrap().leases.remove(0);
        let end = cut.bench.settle(&lease, done());
        let settled = cut.losing(lost, "COMMIT", end).await.unwrap();
        let record = cut.bench.record(lease.job.id).await;
        assert_eq!((record.job.version, record.job.status), (settled.version, Status::Completed));
        assert_eq!(record.history.len(), 3, "{lost:?}: {:?}", record.history);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requeue_with_a_lost_response_queues_the_job_once() {
    let cut = LossyConnection::new().await;
    for lost in BOTH {
        let lease = cut.bench.running().await;
        let end = cut.bench.settle(&lease, longhaul::job::Outcome::Released);
        let settled = cut.losing(lost, "DELETE FROM longhaul.leases", end).await.unwrap();
        assert_eq!(settled.status, Status::Pending, "{lost:?}");
        let again = cut.bench.claim_one().await;
        assert_eq!((again.job.id, again.job.attempt, again.epoch), (lease.job.id, 1, 2));
        assert!(cut.bench.claim(1).await.is_empty());
        cut.bench.settle(&again, done()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoint_with_a_lost_response_is_stored_once() {
    let cut = LossyConnection::new().await;
    let lease = cut.bench.running().await;
    for (n, lost) in (0..).zip(BOTH) {
        let step = format!("step-{n}");
        let stored = cut.bench.step(&lease, n, &step, "12");
        cut.losing(lost, "INSERT INTO longhaul.steps", stored).await.unwrap();
        let steps = cut.bench.store().steps(&home(), lease.job.id).await.unwrap();
        assert_eq!(steps.len(), usize::try_from(n).unwrap() + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn phase_with_a_lost_response_is_recorded_once() {
    let cut = LossyConnection::new().await;
    let lease = cut.bench.running().await;
    for (n, lost) in BOTH.into_iter().enumerate() {
        let phases = vec![format!("phase-{n}")];
        let report = Report { lease: lease.to_ref(), phases, progress: None };
        let store = cut.bench.store();
        let told = cut.losing(lost, "COMMIT", store.report(vec![report])).await;
        assert_eq!(told, [Ok(())], "{lost:?}");
    }
    let record = cut.bench.record(lease.job.id).await;
    let phases: Vec<_> = record.history.iter().filter_map(|event| event.phase.clone()).collect();
    assert_eq!(phases, ["phase-0", "phase-1"]);
    cut.bench.settle(&lease, done()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_with_a_lost_response_cancels_once() {
    let cut = LossyConnection::new().await;
    let store = cut.bench.store();
    for lost in BOTH {
        let pending = cut.bench.pending().await;
        let cancelled = cut.losing(lost, "COMMIT", store.cancel(&home(), pending.id)).await;
        assert_eq!(cancelled.unwrap().status, Status::Cancelled, "{lost:?}");
        assert_eq!(cut.bench.record(pending.id).await.history.len(), 2);

        let lease = cut.bench.running().await;
        let asked = cut.losing(lost, "COMMIT", store.cancel(&home(), lease.job.id)).await.unwrap();
        assert!(asked.cancel_requested_at.is_some(), "{lost:?}");
        assert_eq!(cut.bench.record(lease.job.id).await.history.len(), 3);
        let end = settlement(&lease, longhaul::job::Outcome::Cancelled);
        cut.bench.settle_as(end).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_with_a_lost_response_resumes_once_and_succeeds() {
    let cut = LossyConnection::new().await;
    let store = cut.bench.store();
    for lost in BOTH {
        let failed = cut.bench.ended(failed_for_good()).await;
        let resumed = cut.losing(lost, "COMMIT", store.resume(&home(), failed.id)).await;
        let resumed = resumed.unwrap_or_else(|error| panic!("{lost:?}: {error}"));
        assert_eq!(resumed, cut.bench.record(failed.id).await.job, "{lost:?}");
        let lease = cut.bench.claim_one().await;
        assert_eq!(lease.job.id, failed.id);
        assert!(cut.bench.claim(1).await.is_empty(), "{lost:?}: it is in line once");
        cut.bench.settle(&lease, done()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fork_with_a_lost_response_creates_one_job() {
    let cut = LossyConnection::new().await;
    let store = cut.bench.store();
    for lost in BOTH {
        let (old, new_id) = (cut.bench.ended(done()).await, cut.bench.job().id);
        let forked = cut.losing(lost, "COMMIT", store.fork(&home(), old.id, new_id, None)).await;
        assert_eq!(forked.unwrap(), cut.bench.record(new_id).await.job, "{lost:?}");
        let lease = cut.bench.claim_one().await;
        assert_eq!(lease.job.id, new_id);
        assert!(cut.bench.claim(1).await.is_empty(), "{lost:?}: it is in line once");
        cut.bench.settle(&lease, done()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purge_with_a_lost_response_deletes_and_succeeds() {
    let cut = LossyConnection::new().await;
    let store = cut.bench.store();
    for lost in BOTH {
        let ended = cut.bench.ended(done()).await;
        let purged = cut.losing(lost, "COMMIT", store.purge(&home(), ended.id)).await;
        assert_eq!(purged, Ok(()), "{lost:?}");
    }
    assert_eq!(cut.count("jobs").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rescue_and_pause_survive_a_lost_response() {
    let cut = LossyConnection::new().await;
    let store = cut.bench.store();
    for lost in BOTH {
        let (tenant, queue) = (home(), name("slow"));
        let paused = store.pause_queue(&tenant, &queue, true);
        assert_eq!(cut.losing(lost, "INSERT INTO longhaul.paused_queues", paused).await, Ok(()));
        let opened = store.pause_queue(&tenant, &queue, false);
        assert_eq!(cut.losing(lost, "DELETE FROM longhaul.paused_queues", opened).await, Ok(()));

        let lease = cut.bench.running().await;
        cut.bench.advance(longhaul::store::conformance::LEASE * 2);
        let swept = cut.losing(lost, "COMMIT", store.rescue(10));
        swept.await.unwrap();
        let again = cut.bench.claim_one().await;
        assert_eq!((again.job.id, again.job.attempt), (lease.job.id, 2), "{lost:?}");
        cut.bench.settle(&again, done()).await.unwrap();
    }
}

/// Loses the response that contains `text`, and then every attempt of the call to read its outcome.
async fn lose_outcome(cut: &LossyConnection, text: &str) {
    cut.proxy.lose(LostMessage::Answer, text);
    for number in 1..=4 {
        while cut.proxy.losses() < number {
            tokio::task::yield_now().await;
        }
        cut.proxy.lose(LostMessage::Question, "SELECT longhaul.split_leases");
    }
}

/// The worker does not know of the lease, so nothing renews it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_of_a_claim_with_an_unknown_outcome_is_released_by_the_next_claim() {
    let cut = LossyConnection::new().await;
    let id = cut.bench.pending().await.id;
    let (store, want) = (cut.bench.store(), cut.bench.want(1));
    let (claimed, ()) = tokio::join!(store.claim(&want), lose_outcome(&cut, "COMMIT"));
    assert!(matches!(claimed, Err(StoreError::Unavailable(_))), "{claimed:?}");
    assert_eq!(cut.bench.record(id).await.job.status, Status::Running);
    let lease = cut.bench.claim_one().await;
    assert_eq!((lease.job.id, lease.job.attempt), (id, 1));
    cut.bench.settle(&lease, done()).await.unwrap();
    assert_eq!(cut.bench.record(id).await.job.status, Status::Completed);
}
