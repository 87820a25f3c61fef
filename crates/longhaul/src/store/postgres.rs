//! A job store in Postgres, shared by any number of replicas.
//!
//! Concurrent writes are grouped into multi-row statements over arrays (`batcher`). Each statement is a
//! transaction of its own, so that no transaction is open while a handler runs. Hot tables are small and
//! separate from large or finished rows: see the first migration.

/// Repeats an attempt while its error is transient. `$is_retry` is true after the first attempt, which may have
/// been committed although its response was lost.
macro_rules! retrying {
    ($attempt:expr) => {
        retrying!(_is_retry => $attempt)
    };
    ($is_retry:ident => $attempt:expr) => {{
        use $crate::store::postgres::connection::error::{PgError, RetryState};
        let mut retries = RetryState::default();
        loop {
            let $is_retry = retries.is_retry();
            let done: Result<_, PgError> = $attempt.await;
            match done {
                Ok(done) => break Ok(done),
                Err(error) => {
                    if let Err(error) = retries.again(error).await {
                        break Err(error);
                    }
                }
            }
        }
    }};
}

#[cfg(feature = "server")]
mod accounts;
mod batch;
mod caller_transaction;
mod checkpoints;
mod claim;
mod connection;
mod control;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod lease_cache;
mod leases;
mod maintenance;
mod outbox;
mod output_streams;
mod queries;
mod replicas;
mod row;
mod schema;
mod settle;
mod settle_batch;
mod sql;
mod sql_submissions;
mod submit;
#[cfg(test)]
mod tests;
#[cfg(feature = "sqlite")]
mod transfer;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) use caller_transaction::{SqlSubmitError, submit_in_transaction};
pub use schema::migrate::MigrationReport;
pub use schema::row_security::RowSecurity;
pub use schema::{DatabaseInfo, OpenError, inspect, migrate};
/// The Postgres client crate, in the version that
/// [`Submission::in_transaction`](crate::Submission::in_transaction) accepts.
pub use tokio_postgres;
#[cfg(feature = "sqlite")]
pub(crate) use transfer::{fit_for_postgres, fit_row_for_postgres};

use self::claim::lane_cursors::LaneCursors;
use self::claim::query::Rotation;
use self::connection::batcher::Batcher;
use self::connection::database::PgDatabase;
use self::connection::dedicated::ReservedConnection;
use self::connection::error::PgError;
use self::connection::notify::{self, Notifier};
use self::connection::params::Param;
use self::connection::timeouts::Timeouts;
use self::lease_cache::LeaseCache;
use self::outbox::SubscriptionCache;
use self::settle::TenantJob;
use super::columns::FromRow;
use super::{
    Checkpoint, CheckpointResult, NewJob, SettleResult, Settlement, StoreError, SubmitResult,
};
use crate::clock::Clock;
use crate::job::{Record, TenantId};

/// Batches of writes of one sort in flight at once: while one waits for its sync, the next is assembled.
const WRITES_MAX: usize = 2;
/// Batches of reads in flight at once: more than of writes, so that one that waits does not delay the others.
const READS_MAX: usize = 4;

/// A store in a Postgres database, in its schema `longhaul`.
pub struct PostgresStore {
    inner: Arc<Inner>,
    submits: Batcher<NewJob, SubmitResult>,
    checkpoints: Batcher<Checkpoint, CheckpointResult>,
    settlements: Batcher<Settlement, SettleResult>,
    reads: Batcher<TenantJob, Record>,
    /// Background tasks, aborted when the store is dropped.
    tasks: Vec<JoinHandle<()>>,
}

/// State shared by all calls.
struct Inner {
    database: Arc<PgDatabase>,
    clock: Clock,
    notify: Notifier,
    lease_cache: LeaseCache,
    /// True if a test wants as many shared leases as possible.
    always_shares_leases: AtomicBool,
    /// Round-robin state over tenants.
    tenants: Rotation,
    /// Round-robin state over the queues of outboxes.
    outboxes: Rotation,
    /// Tenants whose limits were exhausted at the last claim. Only a hint: claims check again.
    limited_tenants: Mutex<HashSet<TenantId>>,
    lane_cursors: tokio::sync::Mutex<LaneCursors>,
    /// Time at which this process last checked `incoming` for jobs submitted by SQL.
    incoming_checked_at: AtomicI64,
    lost_claims: claim::lost::LostClaims,
    /// Time at which this process last read the database's clock.
    clock_read_at: crate::sync::Mutex<Option<std::time::Instant>>,
    reserved: ReservedConnection,
    subscriptions: SubscriptionCache,
    /// Notified when this process has written deliveries.
    outbox_notify: Arc<Notify>,
}

impl PostgresStore {
    /// Connects to the database of a `postgres://` URL and migrates its schema.
    ///
    /// Sets the clock to the time of the live replicas, or to the database's if there are none. Must be called inside the tokio
    /// runtime that uses the store.
    ///
    /// Besides the settings that Postgres' own clients understand, the URL may contain
    /// `sslmode=verify-full`, `sslrootcert=FILE`, `pool_max=N` (number of connections, 10 by default,
    /// besides one for heartbeats and one for notifications) and `pgbouncer=true` for a transaction
    /// pooler, which is usually detected without it.
    pub async fn open(url: &str, clock: Clock) -> Result<Self, OpenError> {
        Self::open_with(url, clock, Timeouts::default()).await
    }

    async fn open_with(url: &str, clock: Clock, timeouts: Timeouts) -> Result<Self, OpenError> {
        let inner = Arc::new(Inner {
            database: schema::open(url, timeouts).await?,
            clock,
            notify: Notifier::new(),
            lease_cache: LeaseCache::default(),
            always_shares_leases: AtomicBool::new(false),
            tenants: Rotation::default(),
            outboxes: Rotation::default(),
            limited_tenants: Mutex::default(),
            lane_cursors: tokio::sync::Mutex::default(),
            incoming_checked_at: AtomicI64::new(0),
            lost_claims: claim::lost::LostClaims::default(),
            clock_read_at: crate::sync::Mutex::default(),
            reserved: ReservedConnection::default(),
            subscriptions: SubscriptionCache::default(),
            outbox_notify: Arc::default(),
        });
        retrying!(inner.start_clock()).map_err(|error: StoreError| {
            OpenError::Unreachable(format!("{}: {error}", inner.database.address()))
        })?;
        let runtime = Handle::current();
        let tasks = vec![
            runtime.spawn(notify::run_sender(Arc::clone(&inner))),
            runtime.spawn(notify::run_listener(Arc::clone(&inner))),
            runtime.spawn(sql_submissions::run(Arc::clone(&inner))),
        ];
        /// Creates a batcher that runs a method of [`Inner`].
        macro_rules! batcher {
            ($in_flight:ident, $bytes_of:path, $run:ident) => {{
                let inner = Arc::clone(&inner);
                Batcher::new(runtime.clone(), $in_flight, $bytes_of, move |items| {
                    let inner = Arc::clone(&inner);
                    async move { inner.$run(items).await }
                })
            }};
        }
        Ok(Self {
            submits: batcher!(WRITES_MAX, submit::bytes_of, submit_batch),
            checkpoints: batcher!(WRITES_MAX, checkpoints::bytes_of, checkpoint_batch),
            settlements: batcher!(WRITES_MAX, settle::bytes_of, settle_batch),
            reads: batcher!(READS_MAX, queries::find::bytes_of, read_batch),
            inner,
            tasks,
        })
    }
}

impl PostgresStore {
    /// Shares the lease of every job that can share one, also of a job that is claimed alone, so that tests of single
    /// jobs cover shared leases.
    #[cfg(feature = "failpoints")]
    #[must_use]
    pub fn always_sharing_leases(self) -> Self {
        self.inner.always_shares_leases.store(true, std::sync::atomic::Ordering::Relaxed);
        self
    }

    /// Reads the database's clock now, so that tests of its steps need not wait for the next reading.
    #[cfg(feature = "failpoints")]
    pub async fn follow_clock(&self) -> Result<(), StoreError> {
        retrying!(self.inner.follow_clock())
    }

    /// Opens a store whose limits on waiting for the database are shorter by this factor.
    #[cfg(feature = "failpoints")]
    pub async fn open_impatient(url: &str, clock: Clock, divisor: u32) -> Result<Self, OpenError> {
        Self::open_with(url, clock, Timeouts::default().divided_by(divisor)).await
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.inner.database.close();
    }
}

/// Calls the method of [`Inner`] with the same name, and repeats it while its error is transient. A method that
/// repeats its own attempts returns [`StoreError`]s, which are not repeated again.
macro_rules! call {
    ($this:ident, submit, $jobs:ident) => {
        $this.submits.run($jobs)
    };
    ($this:ident, submit_and_claim, $job:ident, $want:ident) => {
        $this.inner.submit_and_claim($job, $want)
    };
    ($this:ident, checkpoint, $checkpoint:ident) => {
        $this.checkpoints.run_one($checkpoint)
    };
    ($this:ident, settle, $settlements:ident) => {
        $this.settlements.run($settlements)
    };
    ($this:ident, job, $tenant:ident, $id:ident) => {
        $this.reads.run_one(($tenant.clone(), $id))
    };
    ($this:ident, report, $reports:ident) => {
        $this.inner.report(&$reports)
    };
    ($this:ident, renew, $leases:ident, $duration:ident) => {
        $this.inner.renew(&$leases, $duration)
    };
    ($this:ident, record_deletions, $deletions:ident, $replica:ident) => {
        async { retrying!($this.inner.record_deletions(&$deletions, $replica)) }
    };
    ($this:ident, orphan_blobs, $blobs:ident) => {
        async { retrying!($this.inner.orphan_blobs(&$blobs)) }
    };
    ($this:ident, now) => {
        $this.inner.clock.now()
    };
    ($this:ident, change_notifications) => {
        Some($this.inner.notify.subscribe())
    };
    ($this:ident, output_streams) => {
        Some($this)
    };
    ($this:ident, outbox_notify) => {
        Arc::clone(&$this.inner.outbox_notify)
    };
    ($this:ident, $method:ident $(, $argument:ident)*) => {
        async { retrying!($this.inner.$method($($argument),*)) }
    };
}

crate::delegate_store!(impl[] for PostgresStore, call);

impl Inner {
    async fn all<T: FromRow>(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<T>, PgError> {
        self.database.connection().await?.all(sql, params).await
    }

    async fn first<T: FromRow>(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Option<T>, PgError> {
        self.database.connection().await?.first(sql, params).await
    }

    /// Reads all rows over a connection that sees one tenant only.
    async fn all_of<T: FromRow>(
        &self,
        tenant: &TenantId,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<T>, PgError> {
        self.database.tenant_connection(tenant).await?.all(sql, params).await
    }

    /// Reads the first row over a connection that sees one tenant only.
    async fn first_of<T: FromRow>(
        &self,
        tenant: &TenantId,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Option<T>, PgError> {
        self.database.tenant_connection(tenant).await?.first(sql, params).await
    }

    /// Runs a statement. Returns the number of rows.
    async fn run(&self, sql: &'static str, params: &[&dyn Param]) -> Result<usize, PgError> {
        Ok(self.database.connection().await?.query(sql, params).await?.len())
    }
}
