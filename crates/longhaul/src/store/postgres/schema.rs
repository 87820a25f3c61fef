//! Opening a database: connects, checks the server, migrates the schema and enables row-level security.

pub(super) mod migrate;
pub(super) mod row_security;

use std::sync::Arc;

use self::migrate::{MigrationReport, connect_error};
use self::row_security::RowSecurity;
use super::connection::database::PgDatabase;
use super::connection::error::describe;
use super::connection::timeouts::{Timeouts, within};
use super::connection::url::DatabaseUrl;
use super::sql;

/// An error while opening a database, by the operator's remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is invalid.
    #[error("invalid database URL: {0}")]
    Address(String),
    /// TLS cannot be configured, for example because a certificate file is missing.
    #[error("cannot set up TLS to the database: {0}")]
    Tls(String),
    /// The server is down, starting or not reachable, or the URL's address is wrong. Waiting may help.
    #[error("cannot connect to Postgres at {0}")]
    Unreachable(String),
    /// The server rejects the connection, for example because user, password or database is wrong.
    #[error("cannot connect to Postgres at {0}")]
    Connect(String),
    /// A migration failed.
    #[error("cannot migrate the schema: {}", describe(.0))]
    Migration(#[source] tokio_postgres::Error),
    /// A newer version of this program has migrated the schema.
    #[error(
        "the database was written by a newer version (its schema is {found}, this program knows up \
         to {known}); run the newer version, or restore the backup from before the upgrade"
    )]
    TooNew {
        /// The schema's version.
        found: i32,
        /// The newest version that this program knows.
        known: i32,
    },
    /// The server or its settings do not meet the requirements.
    #[error("this database cannot be used: {0}")]
    Refused(String),
}

impl OpenError {
    /// Adds the server's address to a connection error.
    fn at(self, address: &str) -> Self {
        match self {
            Self::Unreachable(why) => Self::Unreachable(format!("{address}: {why}")),
            Self::Connect(why) => Self::Connect(format!("{address}: {why}")),
            other @ (Self::Address(_)
            | Self::Tls(_)
            | Self::Migration(_)
            | Self::TooNew { .. }
            | Self::Refused(_)) => other,
        }
    }
}

/// Minimum server version. Older ones lack features that the statements use.
const SERVER_VERSION_MIN: i32 = 130_000;

/// Connects, checks the server and migrates the schema.
pub(super) async fn open(url: &str, timeouts: Timeouts) -> Result<Arc<PgDatabase>, OpenError> {
    Ok(Arc::new(connect_and_migrate(url, timeouts).await?.0))
}

/// Migrates the schema of a database, as opening it does.
pub async fn migrate(url: &str) -> Result<MigrationReport, OpenError> {
    Ok(connect_and_migrate(url, Timeouts::default()).await?.1)
}

async fn connect_and_migrate(
    url: &str,
    timeouts: Timeouts,
) -> Result<(PgDatabase, MigrationReport), OpenError> {
    let url = DatabaseUrl::parse(url)?;
    let address = url.address();
    let migrated = async {
        let (database, asynchronous_standbys) = connect(url, timeouts).await?;
        if asynchronous_standbys > 0 {
            tracing::warn!(
                asynchronous_standbys,
                "no commit waits for a standby of this database: a failover to one may lose acknowledged jobs; set \
                 synchronous_standby_names to prevent it"
            );
        }
        let report = migrate::migrate(&database).await?;
        row_security::enable(&database).await?;
        Ok((database, report))
    };
    migrated.await.map_err(|error: OpenError| error.at(&address))
}

/// The state of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// Versions of server and schema, in words.
    pub summary: String,
    /// State of row-level security.
    pub row_security: RowSecurity,
    /// Number of connected standbys, if no commit waits for one: a failover may lose acknowledged writes.
    pub asynchronous_standbys: u64,
}

/// Inspects a database without changing it.
pub async fn inspect(url: &str) -> Result<DatabaseInfo, OpenError> {
    let url = DatabaseUrl::parse(url)?;
    let address = url.address();
    let info = async {
        let (database, asynchronous_standbys) = connect(url, Timeouts::default()).await?;
        let client = database.dedicated_connection().await.map_err(connect_error)?;
        let rows = client.query_typed("SELECT current_setting('server_version')", &[]).await;
        let rows = rows.map_err(|error| OpenError::Connect(describe(&error)))?;
        let server: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
        let schema = match migrate::schema_version(&client).await? {
            0 => "no schema yet; the first start creates it".to_owned(),
            version => format!("schema version {version}"),
        };
        let pooler = if database.is_pooled() { ", behind a pooler" } else { "" };
        let row_security =
            row_security::inspect(&client).await.map_err(row_security::to_open_error)?;
        let summary = format!("Postgres {server}{pooler}; {schema}");
        Ok(DatabaseInfo { summary, row_security, asynchronous_standbys })
    };
    info.await.map_err(|error: OpenError| error.at(&address))
}

/// Connects to a server and checks that it keeps the store's promises. Also returns the number of its standbys, if no
/// commit waits for one.
async fn connect(url: DatabaseUrl, timeouts: Timeouts) -> Result<(PgDatabase, u64), OpenError> {
    let database = PgDatabase::new(url, timeouts)?;
    // First, because an error of the pool does not show its cause.
    let client = database.dedicated_connection().await.map_err(connect_error)?;
    database.detect_pooler().await.map_err(connect_error)?;
    let settings = client.query_typed(sql::SERVER_SETTINGS, &[]);
    let rows = within(timeouts.statement, settings).await.map_err(connect_error)?;
    let Some(row) = rows.first() else {
        return Err(OpenError::Connect("the server does not report its settings".to_owned()));
    };
    let refused = |why: &str| Err(OpenError::Refused(why.to_owned()));
    let version: i32 = row.get(0);
    if version < SERVER_VERSION_MIN {
        return refused("Postgres 13 or newer is needed");
    }
    if row.get::<_, &str>(1) != "UTF8" {
        return refused("its encoding must be UTF8");
    }
    if ["off", "local"].contains(&row.get::<_, &str>(2)) {
        return refused(
            "synchronous_commit is off, so acknowledged jobs may be lost; turn it on for this \
             database or role (ALTER DATABASE … SET synchronous_commit = on)",
        );
    }
    if row.get(4) {
        return refused("it is a standby, which is read-only");
    }
    if row.get::<_, &str>(3) != "on" {
        tracing::warn!("Postgres runs with fsync = off: a crash of its machine may lose all data");
    }
    let asynchronous_standbys = u64::try_from(row.get::<_, i64>(5)).unwrap_or_default();
    Ok((database, asynchronous_standbys))
}
