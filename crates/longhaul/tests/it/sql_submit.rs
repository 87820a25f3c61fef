//! Submission by SQL, inside a transaction of the caller.

use std::time::Duration;

use longhaul::job::Name;
use longhaul::store::StoreError;
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::{Clock, Ctx, Engine, JobError, JobId, Kind, Status, SubmitError, TenantId};
use tokio_postgres::Client;

use crate::postgres::TestDatabase;

/// A store with a manual clock, and a second connection to its database.
struct Desk {
    harness: StoreHarness,
    clock: Clock,
    client: Client,
    url: String,
}

impl Desk {
    /// Sets the manual clock to the database's time, which the SQL function uses.
    async fn new() -> Self {
        Self::open(|url| url).await
    }

    /// Like [`Desk::new`], with a store that receives no notifications, as behind a pooler. Otherwise it moves jobs out of
    /// `incoming` at a moment that the test does not control: when its listener has connected.
    async fn without_listener() -> Self {
        Self::open(|url| {
            let separator = if url.contains('?') { '&' } else { '?' };
            format!("{url}{separator}pgbouncer=true")
        })
        .await
    }

    async fn open(store_url: impl Fn(String) -> String) -> Self {
        let database = TestDatabase::create().await;
        let (clock, url) = (Clock::manual(Clock::system().now()), database.url());
        let store = PostgresStore::open(&store_url(url.clone()), clock.clone()).await.unwrap();
        let client = database.connect().await;
        Self {
            harness: StoreHarness::new(store, clock.clone()).keeping(database),
            clock,
            client,
            url,
        }
    }

    /// Calls the SQL function with these arguments.
    async fn submit(&self, arguments: &str) -> Result<JobId, tokio_postgres::Error> {
        submit(&self.client, arguments).await
    }

    /// Returns the error code and message of a rejected submission.
    async fn refusal(&self, arguments: &str) -> (String, String) {
        let error = self.submit(arguments).await.unwrap_err();
        let said = error.as_db_error().unwrap();
        (said.code().code().to_owned(), said.message().to_owned())
    }

    async fn pending(&self) -> u64 {
        self.harness.store().count_pending(&TenantId::default(), None, 100).await.unwrap()
    }

    async fn rows(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM longhaul.{table}");
        self.client.query_one(&sql, &[]).await.unwrap().get(0)
    }

    /// Waits until a transaction in this database is blocked by another one.
    async fn until_somebody_waits(&self) {
        let waits = "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        // On a separate connection, because a transaction sees a fixed snapshot of the activity view.
        let client = self.another_client().await;
        while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    }

    async fn another_client(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

async fn submit(client: &Client, arguments: &str) -> Result<JobId, tokio_postgres::Error> {
    let sql = format!("SELECT longhaul.submit({arguments})");
    let row = client.query_one(&sql, &[]).await?;
    Ok(row.get::<_, String>(0).parse().unwrap())
}

/// Starts an engine with an `echo` kind and the system clock.
async fn echo(url: &str) -> Engine {
    let kind = Kind::new("echo", |_ctx: Ctx, text: String| async move { Ok::<_, JobError>(text) });
    Engine::builder()
        .postgres(url)
        .register(kind.queue(Name::new("post").unwrap()))
        .start()
        .await
        .unwrap()
}

async fn result(engine: &Engine, id: JobId) -> String {
    let mut watcher = engine.watch(id, None);
    let mut last = None;
    while let Some(record) = watcher.next().await {
        last = Some(record.unwrap());
    }
    last.unwrap().result.unwrap().as_str().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_submission_that_is_rolled_back_leaves_no_job() {
    let desk = Desk::new().await;
    desk.client.batch_execute("BEGIN").await.unwrap();
    let id = desk.submit("'demo', '{}'").await.unwrap();
    assert_eq!(desk.harness.try_record(id).await.unwrap_err(), StoreError::NotFound);
    desk.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(desk.harness.try_record(id).await.unwrap_err(), StoreError::NotFound);
    assert!(desk.harness.claim(5).await.is_empty());
    assert_eq!(desk.pending().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_sql_submission_is_pending_at_once_and_claimed_by_an_idle_worker() {
    let desk = Desk::without_listener().await;
    let arguments = "'demo', '{\"page\": 1}', queue => 'mail', priority => 3, max_attempts => 7,
        timeout => '90 s', labels => '{\"a\": \"b\"}', hint => false";
    let id = desk.submit(arguments).await.unwrap();
    let record = desk.harness.record(id).await;
    assert_eq!(
        (record.job.status, record.job.version, record.history.len()),
        (Status::Pending, 1, 1)
    );
    assert_eq!((record.job.queue.as_str(), record.job.priority), ("mail", 3));
    assert_eq!((record.job.max_attempts, record.job.labels["a"].as_str()), (7, "b"));
    assert_eq!(record.job.timeout, Some(Duration::from_secs(90)));
    assert_eq!(desk.pending().await, 1);
    let queues = desk.harness.store().queues(&TenantId::default()).await.unwrap();
    assert_eq!((queues[0].name.as_str(), queues[0].pending), ("mail", 1));
    desk.clock.advance(Duration::from_secs(1));
    let lease = desk.harness.claim_one().await;
    assert_eq!((lease.job.id, lease.input.as_str()), (id, r#"{"page": 1}"#));
    assert_eq!((desk.pending().await, desk.rows("incoming").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn job_of_a_long_transaction_is_claimed_after_its_lane_was_raised() {
    let desk = Desk::without_listener().await;
    // The job of the open transaction has the same lane as a committed one.
    let other = desk.another_client().await;
    desk.submit("'demo', hint => false").await.unwrap();
    desk.client.batch_execute("BEGIN").await.unwrap();
    let id = desk.submit("'demo', hint => false").await.unwrap();
    for _ in 0..40 {
        desk.clock.advance(Duration::from_secs(15));
        desk.harness.store().rescue(10).await.unwrap();
        for lease in desk.harness.claim(9).await {
            assert_ne!(lease.job.id, id);
            desk.harness.settle(&lease, longhaul::store::conformance::done()).await.unwrap();
        }
    }
    let due_at: i64 =
        other.query_one("SELECT due_at FROM longhaul.lanes", &[]).await.unwrap().get(0);
    assert!(due_at > Clock::system().now().as_millis() + 60_000, "the lane was raised");
    desk.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(desk.harness.claim_one().await.job.id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn lane_raised_during_enqueueing_does_not_skip_the_incoming_job() {
    const MOVE: &str = include_str!("../../src/store/postgres/sql/submit/enqueue_incoming.sql");
    let desk = Desk::new().await;
    let first = desk.harness.running().await;
    desk.harness.settle(&first, longhaul::store::conformance::done()).await.unwrap();
    desk.clock.advance(Duration::from_mins(10));
    desk.client.batch_execute("BEGIN").await.unwrap();
    let id = desk.submit("'demo', hint => false").await.unwrap();
    desk.client.batch_execute("SELECT FROM longhaul.lanes FOR UPDATE").await.unwrap();
    let store = desk.harness.store();
    // The rescue has read the lane as empty and waits for its lock.
    let raising = tokio::spawn(async move { store.rescue(1).await.unwrap() });
    desk.until_somebody_waits().await;
    desk.client.query(MOVE, &[&9_i64]).await.unwrap();
    desk.client.batch_execute("COMMIT").await.unwrap();
    raising.await.unwrap();
    assert_eq!(desk.harness.claim_one().await.job.id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn incoming_jobs_are_enqueued_by_the_rescuer_when_workers_are_busy() {
    let desk = Desk::without_listener().await;
    let id = desk.submit("'demo', hint => false").await.unwrap();
    assert_eq!((desk.rows("incoming").await, desk.rows("ready").await), (1, 0));
    desk.harness.store().rescue(10).await.unwrap();
    assert_eq!((desk.rows("incoming").await, desk.rows("ready").await), (0, 1));
    assert_eq!(desk.harness.record(id).await.job.status, Status::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_submission_can_be_cancelled_before_and_after_it_is_enqueued() {
    let desk = Desk::without_listener().await;
    let (store, tenant) = (desk.harness.store(), TenantId::default());
    let early = desk.submit("'demo', hint => false").await.unwrap();
    assert_eq!(store.cancel(&tenant, early).await.unwrap().status, Status::Cancelled);
    assert_eq!(desk.rows("incoming").await, 0);
    let late = desk.submit("'demo', hint => false").await.unwrap();
    store.rescue(1).await.unwrap();
    assert_eq!(store.cancel(&tenant, late).await.unwrap().status, Status::Cancelled);
    assert_eq!(desk.rows("ready").await, 0);
    desk.clock.advance(Duration::from_secs(1));
    assert!(desk.harness.claim(5).await.is_empty());
    store.resume(&tenant, early).await.unwrap();
    assert_eq!(desk.harness.claim_one().await.job.id, early);
    store.purge(&tenant, late).await.unwrap();
    assert_eq!(desk.harness.try_record(late).await.unwrap_err(), StoreError::Gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_submission_is_due_at_its_run_at_and_never_before_its_creation() {
    let desk = Desk::new().await;
    let due_in = async |arguments: &str| {
        let job = desk.harness.record(desk.submit(arguments).await.unwrap()).await.job;
        job.run_at.since(job.created_at)
    };
    assert_eq!(due_in("'demo', run_at => now() - interval '1 day'").await, Duration::ZERO);
    assert_eq!(due_in("'demo', delay => '90 minutes'").await, Duration::from_mins(90));
    let tomorrow = due_in("'demo', run_at => clock_timestamp() + interval '1 day'").await;
    assert!(tomorrow.abs_diff(Duration::from_hours(24)) < Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_key_is_shared_by_sql_and_rust_submissions() {
    let desk = Desk::new().await;
    let by_sql = desk.submit("'demo', '{\"page\":1}', idempotency_key => 'k1'").await.unwrap();
    let again = desk.submit("'demo', '{\"page\": 1.0}', idempotency_key => 'k1'").await.unwrap();
    assert_eq!(by_sql, again);
    let by_rust = desk.harness.submit(desk.harness.keyed("k1")).await.unwrap();
    assert_eq!((by_rust.record.job.id, by_rust.created), (by_sql, false));

    let by_rust = desk.harness.accept(desk.harness.keyed("k2")).await.id;
    let by_sql = desk.submit("'demo', '{\"page\":1}', idempotency_key => 'k2'").await.unwrap();
    assert_eq!(by_rust, by_sql);
    let (code, message) = desk.refusal("'demo', '{\"page\":2}', idempotency_key => 'k2'").await;
    assert_eq!(code, "LH409");
    assert!(message.contains(&by_rust.to_string()), "{message}");
    let (code, _) = desk.refusal("'other', '{\"page\":1}', idempotency_key => 'k2'").await;
    assert_eq!(code, "LH409");
    let elsewhere = desk.submit("'demo', tenant => 'b', idempotency_key => 'k2'").await.unwrap();
    assert_ne!(elsewhere, by_rust);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_transaction_with_an_idempotency_key_waits_for_the_first() {
    let desk = Desk::new().await;
    for (end, same) in [("COMMIT", true), ("ROLLBACK", false)] {
        let arguments = format!("'demo', '1', idempotency_key => '{end}'");
        desk.client.batch_execute("BEGIN").await.unwrap();
        let first = desk.submit(&arguments).await.unwrap();
        let other = desk.another_client().await;
        let second = tokio::spawn(async move { submit(&other, &arguments).await.unwrap() });
        // The end of the first transaction decides.
        desk.until_somebody_waits().await;
        desk.client.batch_execute(end).await.unwrap();
        assert_eq!(second.await.unwrap() == first, same, "{end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_sql_submission_is_rejected_with_code_and_message() {
    let desk = Desk::new().await;
    let label = format!("jsonb_build_object('a', repeat('x', {}))", 256);
    for (arguments, says) in [
        ("'de mo'", "the kind: 'de mo' is not a name"),
        ("NULL", "the kind: NULL is not a name"),
        ("'demo', tenant => ''", "the tenant: '' is not a name"),
        ("'demo', queue => '-x'", "the queue: '-x' is not a name"),
        ("'demo', to_jsonb(repeat('x', 1048576))", "the input in bytes is over the limit: 1048578"),
        ("'demo', priority => 101", "the priority is over the limit: 101"),
        ("'demo', max_attempts => 0", "max_attempts must be between 1 and 1000, not 0"),
        ("'demo', timeout => '0 s'", "the timeout is too short"),
        ("'demo', timeout => '31 days'", "the timeout is over the limit"),
        ("'demo', delay => '-1 s'", "the delay is too short"),
        ("'demo', run_at => now() + interval '2 years'", "the delay is over the limit"),
        ("'demo', run_at => now(), delay => '1 s'", "give either run_at or delay"),
        ("'demo', retention_failed => '400 days'", "the retention is over the limit"),
        ("'demo', idempotency_key => ''", "an idempotency key has 1 to 255 visible ASCII"),
        ("'demo', idempotency_key => 'a b'", "an idempotency key has 1 to 255 visible ASCII"),
        ("'demo', labels => '[]'", "the labels must be a JSON object"),
        ("'demo', labels => '{\"a\": 1}'", "the label 'a' must be a string"),
        (&format!("'demo', labels => {label}"), "a label in characters is over the limit"),
    ] {
        let (code, message) = desk.refusal(arguments).await;
        assert!(code == "LH400" && message.starts_with(says), "{arguments}: {code} {message}");
    }
    assert_eq!(desk.rows("jobs").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_kind_is_rejected_once_a_replica_declares_kinds() {
    let database = TestDatabase::create().await;
    let url = database.url();
    drop(PostgresStore::open(&url, Clock::system()).await.unwrap());
    let client = database.connect().await;
    submit(&client, "'ecko'").await.unwrap();
    let engine = echo(&url).await;
    let error = submit(&client, "'ecko'").await.unwrap_err();
    let said = error.as_db_error().unwrap();
    assert_eq!((said.code().code(), said.message()), ("LH404", "unknown kind 'ecko'; known: echo"));
    submit(&client, "'ecko', check_kind => false").await.unwrap();
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn role_needs_only_execute_on_the_submit_function() {
    let desk = Desk::new().await;
    let role = format!("app_{:08x}", rand::random::<u32>());
    let grants =
        format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA longhaul TO {role}; SET ROLE {role}");
    desk.client.batch_execute(&grants).await.unwrap();
    let denied = async |sql: &str| {
        let error = desk.client.batch_execute(sql).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{sql}: {error}");
    };
    denied("SELECT longhaul.submit('demo')").await;
    let grant =
        format!("RESET ROLE; GRANT EXECUTE ON FUNCTION longhaul.submit TO {role}; SET ROLE {role}");
    desk.client.batch_execute(&grant).await.unwrap();
    desk.submit("'demo', idempotency_key => 'k'").await.unwrap();
    desk.submit("'demo', idempotency_key => 'k'").await.unwrap();
    denied("SELECT input FROM longhaul.jobs").await;
    denied("DELETE FROM longhaul.incoming").await;
    let drop_it = format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}");
    desk.client.batch_execute(&drop_it).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_runs_job_submitted_by_psql() {
    let database = TestDatabase::create().await;
    let engine = echo(&database.url()).await;
    let mut psql = std::process::Command::new("psql");
    psql.args([&database.url(), "-qAtc"]);
    psql.arg("BEGIN; SELECT longhaul.submit('echo', '\"from psql\"'); COMMIT");
    let submitted = tokio::task::block_in_place(|| psql.output()).unwrap();
    let id = String::from_utf8(submitted.stdout).unwrap();
    assert_eq!(result(&engine, id.trim().parse().unwrap()).await, r#""from psql""#);
    let client = database.connect().await;
    let unhinted = submit(&client, "'echo', '\"quietly\"', hint => false").await.unwrap();
    assert_eq!(result(&engine, unhinted).await, r#""quietly""#);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_caller_submits_inside_its_own_transaction() {
    let database = TestDatabase::create().await;
    let (mut client, engine) = (database.connect().await, echo(&database.url()).await);
    client.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)").await.unwrap();

    let order = client.transaction().await.unwrap();
    order.execute("INSERT INTO orders VALUES (1)", &[]).await.unwrap();
    let submission = engine.submit_raw("echo", "dear").key("order-1").label("a", "b").priority(2);
    let id = submission.in_transaction(&order).await.unwrap();
    order.rollback().await.unwrap();
    assert!(matches!(engine.job(id).await, Err(StoreError::NotFound)));

    let order = client.transaction().await.unwrap();
    order.execute("INSERT INTO orders VALUES (1)", &[]).await.unwrap();
    let submission = engine.submit_raw("echo", "dear").key("order-1").label("a", "b").priority(2);
    let id = submission.in_transaction(&order).await.unwrap();
    let same =
        engine.submit_raw("echo", "dear").key("order-1").in_transaction(&order).await.unwrap();
    assert_eq!(id, same);
    order.commit().await.unwrap();
    assert_eq!(result(&engine, id).await, r#""dear""#);
    let job = engine.job(id).await.unwrap().job;
    assert_eq!((job.queue.as_str(), job.priority), ("post", 2), "the kind's own queue");

    let taken = engine.submit_raw("echo", "other").key("order-1").in_transaction(&client).await;
    let Err(SubmitError::Store(StoreError::KeyReused { existing })) = taken else {
        panic!("{taken:?}")
    };
    assert_eq!(existing, id);
    let unknown = engine.submit_raw("ecko", "dear").in_transaction(&client).await;
    assert!(matches!(unknown, Err(SubmitError::UnknownKind { .. })), "{unknown:?}");
    engine.stop().await;
}
