//! Sessions of the connections: their settings, and detection of transaction poolers and of dead connections.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use deadpool_postgres::{HookError, Metrics};
use tokio_postgres::Client;

use crate::metrics;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::timeouts::{Timeouts, within};
use crate::store::postgres::sql;

/// Settings of every session: time limits and the planner.
///
/// A transaction of ours never waits for anything but the database. One that is idle for 5 s belongs to a client that
/// has vanished, and holds locks that renewals of its leases wait for.
///
/// All statements look rows up by their keys, a few at a time, in tables that change faster than their
/// statistics. So the planner must never read a whole table or a whole index, whatever it estimates:
///
/// - no sequential scans, bitmap scans, hash joins or merge joins;
/// - no sorting where an index has the order. After an ANALYZE of a nearly empty `ready` table, reading
///   all of a tenant's rows through the index for lists and sorting them looks as cheap as reading the
///   first row of the primary key. While a long transaction blocks vacuum, that plan scans the dead row of
///   every job that was ever claimed;
/// - no plans that depend on the values of one call, and no JIT compilation.
macro_rules! settings {
    ($set:literal) => {
        concat!(
            $set,
            " statement_timeout = '10s';",
            $set,
            " idle_in_transaction_session_timeout = '5s';",
            $set,
            " jit = off;",
            $set,
            " plan_cache_mode = force_generic_plan;",
            $set,
            " enable_seqscan = off;",
            $set,
            " enable_bitmapscan = off;",
            $set,
            " enable_hashjoin = off;",
            $set,
            " enable_mergejoin = off;",
            $set,
            " enable_sort = off;",
        )
    };
}

/// Settings of a session that no other client shares.
///
/// Statements rely on seeing what was committed before each of them, so the isolation is set here: a default that an
/// operator gives to a database or a role, at any time, must not apply.
pub(crate) const SESSION: &str =
    concat!(settings!("SET"), "SET default_transaction_isolation = 'read committed'");
pub(crate) const BEGIN: &str = "BEGIN";
/// `BEGIN` behind a transaction pooler, with the settings, which last no longer than a transaction there.
pub(crate) const BEGIN_POOLED: &str =
    concat!("BEGIN ISOLATION LEVEL READ COMMITTED;", settings!("SET LOCAL"));

/// State shared by all connections of the pool: detection of transaction poolers and of dead connections.
///
/// Behind a transaction pooler, two connections may share a session, so neither settings nor prepared statements can
/// be relied on.
pub(crate) struct Sessions {
    pooled: AtomicBool,
    /// Server processes of our connections, by pid and start time. One that occurs twice is a pooler's.
    /// A std mutex: locked for a set access, never across an await.
    backends: Mutex<HashSet<(i32, i64)>>,
    pub(crate) timeouts: Timeouts,
    /// Time at which a connection was last found dead. Others that were taken from the pool before are probably
    /// dead, too, so none of them is used again. Otherwise each of them would cost a caller the whole timeout.
    died_at: Mutex<Option<Instant>>,
}

impl Sessions {
    pub(crate) fn new(pooled: bool, timeouts: Timeouts) -> Self {
        Self {
            pooled: AtomicBool::new(pooled),
            backends: Mutex::default(),
            timeouts,
            died_at: Mutex::default(),
        }
    }

    /// Returns whether a transaction pooler was detected or declared.
    pub(crate) fn are_pooled(&self) -> bool {
        self.pooled.load(Ordering::Relaxed)
    }

    /// Sets up a new connection of the pool.
    pub(crate) async fn init_pooled(&self, client: &Client) -> Result<(), HookError> {
        match within(self.timeouts.connect, self.init_session(client)).await {
            Ok(()) => Ok(()),
            Err(PgError::Database(error)) => Err(HookError::Backend(error)),
            Err(_) => Err(HookError::message("the server does not respond")),
        }
    }

    async fn init_session(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let backend = backend(client).await?;
        if !self.backends.lock().unwrap_or_else(PoisonError::into_inner).insert(backend) {
            self.set_pooled();
        }
        if !self.are_pooled() {
            client.batch_execute(SESSION).await?;
        }
        Ok(())
    }

    /// Checks a connection that is about to be taken from the pool. Only one that was idle for a while costs a round
    /// trip.
    pub(crate) async fn check(&self, client: &Client, used: &Metrics) -> Result<(), HookError> {
        let used_at = used.recycled.unwrap_or(used.created);
        let is_suspect = || self.died_at().is_some_and(|died_at| used_at < died_at);
        if client.is_closed() || is_suspect() {
            metrics::connection_dropped();
            return Err(HookError::message("the connection is dead"));
        }
        if used_at.elapsed() >= self.timeouts.idle {
            let checked = within(self.timeouts.check, client.check_connection()).await;
            if let Err(error) = checked {
                if matches!(error, PgError::TimedOut) {
                    self.record_death();
                }
                metrics::connection_dropped();
                return Err(HookError::message("the server does not respond"));
            }
        }
        Ok(())
    }

    fn died_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.died_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a connection does not respond.
    pub(crate) fn record_death(&self) {
        *self.died_at() = Some(Instant::now());
    }

    pub(crate) fn set_pooled(&self) {
        if !self.pooled.swap(true, Ordering::Relaxed) {
            tracing::info!("detected a transaction pooler; statements are no longer prepared");
        }
    }
}

/// Returns the server process of this connection, by pid and start time.
pub(crate) async fn backend(client: &Client) -> Result<(i32, i64), tokio_postgres::Error> {
    let rows = client.query_typed(sql::BACKEND, &[]).await?;
    rows.first().map_or(Ok((0, 0)), |row| Ok((row.try_get(0)?, row.try_get(1)?)))
}
