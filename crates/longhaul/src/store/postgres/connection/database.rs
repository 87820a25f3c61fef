//! The connection pool and transactions.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::{Hook, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::job::TenantId;
use crate::metrics;
use crate::store::columns::FromRow;
use crate::store::postgres::OpenError;
use crate::store::postgres::connection::columns::{read_all, read_first};
use crate::store::postgres::connection::dedicated::DedicatedConnection;
use crate::store::postgres::connection::error::{PgError, is_pooled_session_error};
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::connection::sessions::{
    BEGIN, BEGIN_POOLED, SESSION, Sessions, backend,
};
use crate::store::postgres::connection::timeouts::{Timeouts, within};
use crate::store::postgres::connection::url::DatabaseUrl;
use crate::store::postgres::schema::row_security;

/// Number of probes for a pooler at the start. Each is a round trip.
const POOLER_PROBES: usize = 10;

/// A Postgres database with a pool of connections.
pub(crate) struct PgDatabase {
    pool: Pool,
    url: DatabaseUrl,
    tls: MakeRustlsConnect,
    sessions: Arc<Sessions>,
    /// True if row-level security is active. Determined at the start.
    row_security: AtomicBool,
}

impl PgDatabase {
    /// Creates the pool. Connections are made when they are needed.
    pub(crate) fn new(url: DatabaseUrl, timeouts: Timeouts) -> Result<Self, OpenError> {
        let tls = url.tls()?;
        let sessions = Arc::new(Sessions::new(url.pooled, timeouts));
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(url.config.clone(), tls.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(url.connections_max)
            .wait_timeout(Some(timeouts.connect))
            .create_timeout(Some(timeouts.connect))
            .runtime(Runtime::Tokio1)
            .post_create(Hook::async_fn({
                let sessions = Arc::clone(&sessions);
                move |client, _| {
                    let sessions = Arc::clone(&sessions);
                    Box::pin(async move { sessions.init_pooled(client).await })
                }
            }))
            .pre_recycle(Hook::async_fn({
                let sessions = Arc::clone(&sessions);
                move |client, used| {
                    let sessions = Arc::clone(&sessions);
                    Box::pin(async move { sessions.check(client, used).await })
                }
            }))
            .build()
            .map_err(|error| OpenError::Refused(error.to_string()))?;
        Ok(Self { pool, url, tls, sessions, row_security: AtomicBool::new(false) })
    }

    /// Returns a connection that sees the rows of all tenants.
    pub(crate) async fn connection(&self) -> Result<Connection, PgError> {
        let client = self.pool.get().await?;
        let (pooled, sessions) = (self.is_pooled(), Arc::clone(&self.sessions));
        let begin = Cow::Borrowed(if pooled { BEGIN_POOLED } else { BEGIN });
        Ok(Connection {
            client: Some(client),
            pooled,
            row_security: false,
            begin,
            sessions,
            is_dead: AtomicBool::new(false),
        })
    }

    /// Returns a connection that sees and writes the rows of one tenant only, if row-level security is
    /// active.
    pub(crate) async fn tenant_connection(&self, tenant: &TenantId) -> Result<Connection, PgError> {
        let mut connection = self.connection().await?;
        if self.row_security.load(Ordering::Relaxed) {
            connection.row_security = true;
            connection.begin = Cow::Owned(row_security::begin(&connection.begin, tenant));
        }
        Ok(connection)
    }

    /// Sets whether tenants' connections use row-level security.
    pub(crate) fn set_row_security(&self, row_security: bool) {
        self.row_security.store(row_security, Ordering::Relaxed);
    }

    /// Returns a new connection outside of the pool, driven by the calling runtime.
    pub(crate) async fn dedicated_connection(&self) -> Result<DedicatedConnection, PgError> {
        let limit = self.timeouts().connect;
        let connecting = self.url.config.connect(self.tls.clone());
        let (client, connection) = within(limit, connecting).await?;
        let driver = tokio::spawn(connection).abort_handle();
        let client = DedicatedConnection::new(client, driver);
        if !self.is_pooled() {
            within(limit, client.batch_execute(SESSION)).await?;
        }
        Ok(client)
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.sessions.timeouts
    }

    /// Returns the settings of a connection for notifications; `None` behind a pooler.
    pub(crate) fn listen_config(&self) -> Option<(tokio_postgres::Config, MakeRustlsConnect)> {
        (!self.is_pooled()).then(|| (self.url.config.clone(), self.tls.clone()))
    }

    /// Returns whether a transaction pooler was detected or declared.
    pub(crate) fn is_pooled(&self) -> bool {
        self.sessions.are_pooled()
    }

    /// Detects a transaction pooler: one server process serves two connections, or a connection changes
    /// its server process.
    pub(crate) async fn detect_pooler(&self) -> Result<(), PgError> {
        let first = self.connection().await?;
        let second = self.connection().await?;
        let mut served = [first.backend().await?, second.backend().await?];
        for _ in 0..POOLER_PROBES {
            if served[0] == served[1] {
                self.sessions.set_pooled();
            }
            let again = [first.backend().await?, second.backend().await?];
            if again != served {
                self.sessions.set_pooled();
            }
            if self.is_pooled() {
                break;
            }
            served = again;
        }
        Ok(())
    }

    pub(crate) fn address(&self) -> String {
        self.url.address()
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// A connection for one transaction at a time. Closed instead of returned to the pool if it is dropped
/// inside a transaction, or after it did not respond in time.
pub(crate) struct Connection {
    client: Option<Object>,
    pooled: bool,
    /// True if its transactions run as one tenant.
    row_security: bool,
    begin: Cow<'static, str>,
    sessions: Arc<Sessions>,
    /// True if a response did not arrive in time.
    is_dead: AtomicBool,
}

impl Connection {
    /// Runs one statement in its own transaction.
    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, PgError> {
        let ran = if self.pooled || self.row_security {
            self.query_in_transaction(sql, params).await
        } else {
            self.send(sql, params).await
        };
        self.discard_if_broken(ran)
    }

    /// Runs one statement and reads all rows.
    pub(crate) async fn all<T: FromRow>(
        &mut self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<T>, PgError> {
        read_all(&self.query(sql, params).await?)
    }

    /// Runs one statement and reads the first row, if any.
    pub(crate) async fn first<T: FromRow>(
        &mut self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Option<T>, PgError> {
        read_first(&self.query(sql, params).await?)
    }

    /// Runs one statement in an explicit transaction, pipelined. The commit is sent together with the
    /// statement, so that a caller that stops waiting leaves no transaction open.
    async fn query_in_transaction(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, PgError> {
        self.prepare(sql, params).await?;
        let begin = self.control(&self.begin);
        let (only, commit) = (self.send(sql, params), self.control("COMMIT"));
        let (first, rows, last) = tokio::join!(biased; begin, only, commit);
        first?;
        let rows = rows?;
        last.map(|()| rows)
    }

    /// Begins a transaction with one or two statements, pipelined. Returns the rows of the last one.
    pub(crate) async fn begin(
        self,
        first: (&'static str, &[&dyn Param]),
        second: Option<(&'static str, &[&dyn Param])>,
    ) -> Result<(Transaction, Vec<Row>), PgError> {
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

    /// Ensures that a statement is prepared, unless the connection is pooled.
    ///
    /// Pipelined commands would overtake a statement that still has to be prepared.
    async fn prepare(&self, sql: &'static str, params: &[&dyn Param]) -> Result<(), PgError> {
        if !self.pooled {
            let client = self.client()?;
            let types = self.types(params);
            self.response(client.prepare_typed_cached(sql, &types)).await?;
        }
        Ok(())
    }

    /// Returns the parameter types, which are part of the statement cache's key. Under row-level security
    /// the server infers them, so that the cached statement is a different one: a statement that two
    /// roles use in turn would be planned each time.
    fn types(&self, params: &[&dyn Param]) -> Vec<Type> {
        if self.row_security {
            return Vec::new();
        }
        params.iter().map(|param| param.kind()).collect()
    }

    /// Waits for a response. Detects a dead connection by a timeout, and a pooler by the error that a prepared
    /// statement is missing or exists already.
    async fn response<T>(
        &self,
        response: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PgError> {
        let result = within(self.sessions.timeouts.statement, response).await;
        match &result {
            Err(PgError::TimedOut) => {
                self.is_dead.store(true, Ordering::Relaxed);
                self.sessions.record_death();
            }
            Err(PgError::Database(error)) if !self.pooled && is_pooled_session_error(error) => {
                self.sessions.set_pooled();
            }
            Ok(_) | Err(_) => {}
        }
        result
    }

    /// Returns the server process.
    async fn backend(&self) -> Result<(i32, i64), PgError> {
        self.response(backend(self.client()?)).await
    }

    /// Runs `BEGIN` (with settings), `COMMIT` or `ROLLBACK`.
    async fn control(&self, command: &str) -> Result<(), PgError> {
        self.response(self.client()?.batch_execute(command)).await
    }

    async fn send(&self, sql: &'static str, params: &[&dyn Param]) -> Result<Vec<Row>, PgError> {
        let client = self.client()?;
        let sent = self.response(async {
            if self.pooled {
                query_unprepared(client, sql, params).await
            } else {
                let types = self.types(params);
                let statement = client.prepare_typed_cached(sql, &types).await?;
                client.query(&statement, &plain(params)).await
            }
        });
        let sent = sent.await;
        if matches!(sent, Err(PgError::TimedOut)) {
            // The result is no longer wanted, so cancel the statement on the server too.
            let (cancel, limit) = (client.cancel_token(), self.sessions.timeouts.connect);
            tokio::spawn(async move {
                drop(within(limit, cancel.cancel_query(tokio_postgres::NoTls)).await);
            });
        }
        sent
    }

    fn client(&self) -> Result<&Object, PgError> {
        self.client
            .as_ref()
            .ok_or_else(|| PgError::NoConnection("the connection was closed".to_owned()))
    }

    fn discard_if_broken<T>(&mut self, ran: Result<T, PgError>) -> Result<T, PgError> {
        if ran.as_ref().is_err_and(PgError::is_fatal_to_connection) {
            self.discard();
        }
        ran
    }

    fn discard(&mut self) {
        if let Some(client) = self.client.take() {
            if client.is_closed() || *self.is_dead.get_mut() {
                metrics::connection_dropped();
            }
            drop(Object::take(client));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if *self.is_dead.get_mut() {
            self.discard();
        }
    }
}

/// Runs one statement without preparing it.
pub(crate) async fn query_unprepared(
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

/// An open transaction. Closes its connection if it is dropped without a commit.
pub(crate) struct Transaction(Option<Connection>);

impl Transaction {
    /// Runs a further statement.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, PgError> {
        self.connection()?.send(sql, params).await
    }

    /// Runs the last statement and commits, pipelined. If the statement fails, nothing is committed.
    pub(crate) async fn commit_with(
        mut self,
        sql: &'static str,
        params: &[&dyn Param],
    ) -> Result<Vec<Row>, PgError> {
        let connection = self.connection()?;
        connection.prepare(sql, params).await?;
        let (last, commit) = (connection.send(sql, params), connection.control("COMMIT"));
        let (rows, ()) = tokio::try_join!(biased; last, commit)?;
        drop(self.0.take());
        Ok(rows)
    }

    pub(crate) async fn commit(mut self) -> Result<(), PgError> {
        self.connection()?.control("COMMIT").await?;
        drop(self.0.take());
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) -> Result<(), PgError> {
        self.connection()?.control("ROLLBACK").await?;
        drop(self.0.take());
        Ok(())
    }

    fn connection(&self) -> Result<&Connection, PgError> {
        self.0.as_ref().ok_or_else(|| PgError::NoConnection("the connection was closed".to_owned()))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.discard();
        }
    }
}
