//! Connections: how they are made, shared, used and given up.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts,
};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::OpenError;
use super::error::{Trouble, is_of_a_shared_session};
use super::params::Param;
use super::sql;
use super::url::Target;
use super::wall;
use crate::job::TenantId;

/// How long a caller waits for a connection, or for one to be made.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(5);
/// How often a pooler is looked for at the start. Each look is a round trip.
const LOOKS_FOR_A_POOLER: usize = 10;
/// How long a statement may take, as we count it: the server counts [`SESSION`]'s.
const ANSWER_PATIENCE: Duration = Duration::from_secs(12);

/// Planner settings of every session.
///
/// All statements look rows up by their keys, a few at a time, in tables that change faster than their
/// statistics. So the planner must never read a whole table or a whole index, whatever it believes:
///
/// - no sequential scans, hash joins or merge joins;
/// - no sorting where an index has the order. After an ANALYZE of a nearly empty `ready` table, reading
///   all of a tenant's entries through the index for lists and sorting them looks as cheap as reading
///   the first entry of the primary key. While a long transaction holds vacuum up, that walks over
///   every job that was ever claimed;
/// - no plans that depend on the values of one call, and no JIT compilation.
macro_rules! settings {
    ($set:literal) => {
        concat!(
            $set,
            " statement_timeout = '10s';",
            $set,
            " idle_in_transaction_session_timeout = '30s';",
            $set,
            " jit = off;",
            $set,
            " plan_cache_mode = force_generic_plan;",
            $set,
            " enable_seqscan = off;",
            $set,
            " enable_hashjoin = off;",
            $set,
            " enable_mergejoin = off;",
            $set,
            " enable_sort = off;",
        )
    };
}

/// Where sessions are ours.
const SESSION: &str = settings!("SET");
const BEGIN: &str = "BEGIN";
/// Behind a pooler, where nothing lasts longer than a transaction.
const BEGIN_POOLED: &str = concat!("BEGIN;", settings!("SET LOCAL"));

/// A Postgres database.
pub(super) struct Database {
    pool: Pool,
    target: Target,
    tls: MakeRustlsConnect,
    sessions: Arc<Sessions>,
    /// Whether the database keeps tenants apart too: found out at the start.
    walled: AtomicBool,
}

/// Whether sessions are ours: behind a pooler that hands them out by transaction, two of our
/// connections may share one, and nothing that we set or prepare can be relied on.
struct Sessions {
    pooled: AtomicBool,
    /// The server processes that we have met, by number and start; the same one twice is a pooler's.
    /// A std mutex: held for a set access, never across an await.
    backends: Mutex<HashSet<(i32, i64)>>,
}

impl Database {
    /// Gets ready to connect; does not, yet.
    pub(super) fn new(target: Target) -> Result<Self, OpenError> {
        let tls = target.tls()?;
        let sessions = Arc::new(Sessions {
            pooled: AtomicBool::new(target.pooled),
            backends: Mutex::default(),
        });
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(target.config.clone(), tls.clone(), recycling);
        let patience = Some(CONNECTION_PATIENCE);
        let pool = Pool::builder(manager)
            .max_size(target.connections_max)
            .timeouts(Timeouts { wait: patience, create: patience, recycle: patience })
            .runtime(Runtime::Tokio1)
            .post_create(Hook::async_fn({
                let sessions = Arc::clone(&sessions);
                move |client, _| {
                    let sessions = Arc::clone(&sessions);
                    Box::pin(
                        async move { sessions.greet(client).await.map_err(HookError::Backend) },
                    )
                }
            }))
            .build()
            .map_err(|error| OpenError::Refused(error.to_string()))?;
        Ok(Self { pool, target, tls, sessions, walled: AtomicBool::new(false) })
    }

    /// A connection for what concerns no single tenant: sees everything.
    pub(super) async fn connection(&self) -> Result<Connection, Trouble> {
        let client = self.pool.get().await?;
        let (pooled, sessions) = (self.is_pooled(), Arc::clone(&self.sessions));
        let begin = Cow::Borrowed(if pooled { BEGIN_POOLED } else { BEGIN });
        Ok(Connection { client: Some(client), pooled, walled: false, begin, sessions })
    }

    /// A connection for what is done in a tenant's name: whatever its statements ask for, the database
    /// shows and takes nothing but that tenant's rows.
    pub(super) async fn connection_of(&self, tenant: &TenantId) -> Result<Connection, Trouble> {
        let mut connection = self.connection().await?;
        if self.walled.load(Ordering::Relaxed) {
            connection.walled = true;
            connection.begin = Cow::Owned(wall::begin(&connection.begin, tenant));
        }
        Ok(connection)
    }

    /// Whether connections of tenants are walled in from now on.
    pub(super) fn set_walled(&self, walled: bool) {
        self.walled.store(walled, Ordering::Relaxed);
    }

    /// A connection of its own, outside of the pool and driven by the calling runtime.
    pub(super) async fn own_connection(&self) -> Result<Client, Trouble> {
        let connecting = self.target.config.connect(self.tls.clone());
        let connecting = timeout(CONNECTION_PATIENCE, connecting);
        let (client, connection) = connecting.await.map_err(|_| Trouble::TimedOut)??;
        tokio::spawn(connection);
        if !self.is_pooled() {
            client.batch_execute(SESSION).await?;
        }
        Ok(client)
    }

    /// A connection that hears notifications, unless a pooler is in between.
    pub(super) fn listening(&self) -> Option<(tokio_postgres::Config, MakeRustlsConnect)> {
        (!self.is_pooled()).then(|| (self.target.config.clone(), self.tls.clone()))
    }

    /// Whether a pooler hands out sessions by transaction.
    pub(super) fn is_pooled(&self) -> bool {
        self.sessions.pooled.load(Ordering::Relaxed)
    }

    /// Looks which server processes serve two connections of ours, again and again: one that serves both,
    /// or a connection that is served by another one than before, is a pooler's.
    pub(super) async fn look_for_a_pooler(&self) -> Result<(), Trouble> {
        let first = self.connection().await?;
        let second = self.connection().await?;
        let mut served = [backend(first.client()?).await?, backend(second.client()?).await?];
        for _ in 0..LOOKS_FOR_A_POOLER {
            if served[0] == served[1] {
                self.sessions.are_pooled();
            }
            let again = [backend(first.client()?).await?, backend(second.client()?).await?];
            if again != served {
                self.sessions.are_pooled();
            }
            if self.is_pooled() {
                break;
            }
            served = again;
        }
        Ok(())
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

impl Sessions {
    async fn greet(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let backend = backend(client).await?;
        if !self.backends.lock().unwrap_or_else(PoisonError::into_inner).insert(backend) {
            self.are_pooled();
        }
        if !self.pooled.load(Ordering::Relaxed) {
            client.batch_execute(SESSION).await?;
        }
        Ok(())
    }

    fn are_pooled(&self) {
        if !self.pooled.swap(true, Ordering::Relaxed) {
            tracing::info!("a pooler is in between: no statement is prepared from now on");
        }
    }
}

/// The server process that serves this connection now, by number and start.
async fn backend(client: &Client) -> Result<(i32, i64), tokio_postgres::Error> {
    let rows = client.query_typed(sql::BACKEND, &[]).await?;
    rows.first().map_or(Ok((0, 0)), |row| Ok((row.try_get(0)?, row.try_get(1)?)))
}

/// A connection for one transaction at a time. Given up, not given back, if it is dropped in the
/// middle of one.
pub(super) struct Connection {
    client: Option<Object>,
    pooled: bool,
    /// Whether its transactions are one tenant's.
    walled: bool,
    /// How they begin.
    begin: Cow<'static, str>,
    sessions: Arc<Sessions>,
}

impl Connection {
    /// Runs one statement, which is a transaction of its own.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, Trouble> {
        let ran = if self.pooled || self.walled {
            self.query_alone(sql, params).await
        } else {
            self.send(sql, params).await
        };
        self.keep_or_give_up(ran)
    }

    /// Runs one statement in a transaction that says what it has to, all of it sent together. Once that
    /// has begun, the commit is on its way: whoever stops waiting leaves no open transaction behind.
    async fn query_alone(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, Trouble> {
        self.prepare(sql, params).await?;
        let begin = self.control(&self.begin);
        let (only, commit) = (self.send(sql, params), self.control("COMMIT"));
        let (first, rows, last) = tokio::join!(biased; begin, only, commit);
        first?;
        let rows = rows?;
        last.map(|()| rows)
    }

    /// Begins a transaction with these statements, sent together.
    pub(super) async fn begin(
        self,
        first: (&'static str, &[&dyn Param]),
        second: Option<(&'static str, &[&dyn Param])>,
    ) -> Result<(Transaction, Vec<Row>), Trouble> {
        self.prepare(first.0, first.1).await?;
        if let Some(second) = second {
            self.prepare(second.0, second.1).await?;
        }
        let transaction = Transaction(Some(self));
        let connection = transaction.connection()?;
        let rows = match second {
            None => {
                let begin = connection.control(&connection.begin);
                let first = connection.send(first.0, first.1);
                tokio::try_join!(biased; begin, first)?.1
            }
            Some(second) => {
                let begin = connection.control(&connection.begin);
                let first = connection.send(first.0, first.1);
                let second = connection.send(second.0, second.1);
                tokio::try_join!(biased; begin, first, second)?.2
            }
        };
        Ok((transaction, rows))
    }

    /// Makes sure that a statement is prepared, if statements are: one that first has to be would be
    /// overtaken by what is sent after it.
    async fn prepare(&self, sql: &'static str, params: &[&dyn Param]) -> Result<(), Trouble> {
        if !self.pooled {
            let client = self.client()?;
            let types = self.types(params);
            let prepared = timeout(ANSWER_PATIENCE, client.prepare_typed_cached(sql, &types));
            self.noted(prepared.await.map_err(|_| Trouble::TimedOut)?)?;
        }
        Ok(())
    }

    /// The types by which a statement is prepared and found again. As a tenant's it leaves them to the
    /// server, to be another statement than ours: one that is run by two roles in turn would be planned
    /// anew each time.
    fn types(&self, params: &[&dyn Param]) -> Vec<Type> {
        if self.walled {
            return Vec::new();
        }
        params.iter().map(|param| param.kind()).collect()
    }

    /// A statement of ours that is not there, or there already, is in a session that others use too.
    fn noted<T>(&self, answer: Result<T, tokio_postgres::Error>) -> Result<T, Trouble> {
        if let Err(error) = &answer
            && !self.pooled
            && is_of_a_shared_session(error)
        {
            self.sessions.are_pooled();
        }
        Ok(answer?)
    }

    /// One of `BEGIN`, with what belongs to it, `COMMIT` and `ROLLBACK`.
    async fn control(&self, command: &str) -> Result<(), Trouble> {
        let client = self.client()?;
        let answer = timeout(ANSWER_PATIENCE, client.batch_execute(command));
        Ok(answer.await.map_err(|_| Trouble::TimedOut)??)
    }

    async fn send(&self, sql: &'static str, params: &[&dyn Param]) -> Result<Vec<Row>, Trouble> {
        let client = self.client()?;
        let answer = async {
            if self.pooled {
                query_unprepared(client, sql, params).await
            } else {
                let types = self.types(params);
                let statement = client.prepare_typed_cached(sql, &types).await?;
                client.query(&statement, &plain(params)).await
            }
        };
        if let Ok(answer) = timeout(ANSWER_PATIENCE, answer).await {
            self.noted(answer)
        } else {
            // Nobody waits for the answer any more: let the server stop too, as far as it can.
            tokio::spawn({
                let cancel = client.cancel_token();
                async move { drop(cancel.cancel_query(tokio_postgres::NoTls).await) }
            });
            Err(Trouble::TimedOut)
        }
    }

    fn client(&self) -> Result<&Object, Trouble> {
        self.client.as_ref().ok_or_else(|| Trouble::NoConnection("it was given up".to_owned()))
    }

    fn keep_or_give_up<T>(&mut self, ran: Result<T, Trouble>) -> Result<T, Trouble> {
        if ran.as_ref().is_err_and(Trouble::is_fatal_to_connection) {
            self.give_up();
        }
        ran
    }

    fn give_up(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

/// Runs one statement on a connection of its own, without preparing it.
pub(super) async fn query_unprepared(
    client: &Client,
    sql: &str,
    params: &[&dyn Param],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let typed: Vec<(&(dyn ToSql + Sync), Type)> =
        params.iter().map(|param| (*param as &(dyn ToSql + Sync), param.kind())).collect();
    client.query_typed(sql, &typed).await
}

fn plain<'a>(params: &[&'a dyn Param]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|param| *param as &(dyn ToSql + Sync)).collect()
}

/// An open transaction. Dropped without a commit, it takes its connection along.
pub(super) struct Transaction(Option<Connection>);

impl Transaction {
    /// Runs a further statement.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, Trouble> {
        self.connection()?.send(sql, params).await
    }

    /// Runs the last statement and commits, both sent together. A statement that fails commits
    /// nothing.
    pub(super) async fn commit_with(
        mut self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, Trouble> {
        let connection = self.connection()?;
        connection.prepare(sql, params).await?;
        let (last, commit) = (connection.send(sql, params), connection.control("COMMIT"));
        let (rows, ()) = tokio::try_join!(biased; last, commit)?;
        drop(self.0.take());
        Ok(rows)
    }

    /// Asks a last question, runs the last statement and commits, all sent together. Returns the answer.
    pub(super) async fn commit_with_both(
        mut self,
        question: (&'static str, &[&dyn Param]),
        last: (&'static str, &[&dyn Param]),
    ) -> Result<Vec<Row>, Trouble> {
        let connection = self.connection()?;
        connection.prepare(question.0, question.1).await?;
        connection.prepare(last.0, last.1).await?;
        let question = connection.send(question.0, question.1);
        let last = connection.send(last.0, last.1);
        let (rows, _, ()) = tokio::try_join!(biased; question, last, connection.control("COMMIT"))?;
        drop(self.0.take());
        Ok(rows)
    }

    /// Commits.
    pub(super) async fn commit(mut self) -> Result<(), Trouble> {
        self.connection()?.control("COMMIT").await?;
        drop(self.0.take());
        Ok(())
    }

    /// Undoes all of it.
    pub(super) async fn roll_back(mut self) -> Result<(), Trouble> {
        self.connection()?.control("ROLLBACK").await?;
        drop(self.0.take());
        Ok(())
    }

    fn connection(&self) -> Result<&Connection, Trouble> {
        self.0.as_ref().ok_or_else(|| Trouble::NoConnection("it was given up".to_owned()))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.give_up();
        }
    }
}
