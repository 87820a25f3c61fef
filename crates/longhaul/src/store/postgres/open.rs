//! Opening the database: what must be true of it before we promise anything.

use std::sync::Arc;

use super::database::Database;
use super::error::describe;
use super::migrate::{Migrated, connect_error};
use super::url::Target;
use super::wall::{self, Wall};

/// Why a database cannot be used, by what the operator can do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Fix the address.
    #[error("the address of the database is not understood: {0}")]
    Address(String),
    /// Fix what TLS needs.
    #[error("cannot set up TLS to the database: {0}")]
    Tls(String),
    /// Start the database, or fix address, user and password.
    #[error("cannot connect to Postgres: {0}")]
    Connect(String),
    /// Look at what Postgres says.
    #[error("cannot bring the schema up to date: {}", describe(.0))]
    Migration(#[source] tokio_postgres::Error),
    /// Run the newer program again.
    #[error(
        "the database was written by a newer version (its schema is {found}, this program knows up \
         to {known}); run the newer version, or restore the backup from before the upgrade"
    )]
    TooNew {
        /// The schema's version.
        found: i32,
        /// The newest that this program knows.
        known: i32,
    },
    /// Use another database, or change its settings.
    #[error("this database cannot be used: {0}")]
    Refused(String),
}

/// What the server says of itself.
const ASKED: &str = "
    SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
        current_setting('synchronous_commit'), current_setting('fsync'),
        current_setting('transaction_isolation'), pg_is_in_recovery()";

/// Older servers miss what our statements use.
const SERVER_VERSION_MIN: i32 = 130_000;

/// Connects, checks the server and brings the schema up to date.
pub(super) async fn open(url: &str) -> Result<Arc<Database>, OpenError> {
    let database = Arc::new(Database::new(Target::parse(url)?)?);
    database.look_for_a_pooler().await.map_err(connect_error)?;
    check(&database).await?;
    super::migrate::migrate(&database).await?;
    wall::raise(&database).await?;
    Ok(database)
}

/// Brings the schema of a database up to date, as opening it does, and nothing else.
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    let database = Database::new(Target::parse(url)?)?;
    database.look_for_a_pooler().await.map_err(connect_error)?;
    check(&database).await?;
    let migrated = super::migrate::migrate(&database).await?;
    wall::raise(&database).await?;
    Ok(migrated)
}

/// What a look at a database found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// What it is, in words.
    pub summary: String,
    /// Whether it keeps tenants apart by itself.
    pub wall: Wall,
}

/// Looks at a database without changing it, and says what it is.
pub async fn inspect(url: &str) -> Result<Inspected, OpenError> {
    let database = Database::new(Target::parse(url)?)?;
    database.look_for_a_pooler().await.map_err(connect_error)?;
    check(&database).await?;
    let client = database.own_connection().await.map_err(connect_error)?;
    let rows = client.query_typed("SELECT current_setting('server_version')", &[]).await;
    let rows = rows.map_err(|error| OpenError::Connect(describe(&error)))?;
    let server: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
    let schema = match super::migrate::schema(&client).await? {
        0 => "its schema will be made at the first start".to_owned(),
        version => format!("its schema is at version {version}"),
    };
    let pooler = if database.is_pooled() { ", behind a pooler" } else { "" };
    let wall = wall::examine(&client).await.map_err(wall::to_open_error)?;
    Ok(Inspected { summary: format!("Postgres {server}{pooler}; {schema}"), wall })
}

async fn check(database: &Database) -> Result<(), OpenError> {
    let client = database.own_connection().await.map_err(connect_error)?;
    let rows = client.query_typed(ASKED, &[]).await;
    let rows = rows.map_err(|error| OpenError::Connect(describe(&error)))?;
    let Some(row) = rows.first() else {
        return Err(OpenError::Connect("the server does not tell its settings".to_owned()));
    };
    let refused = |what: &str| Err(OpenError::Refused(what.to_owned()));
    let version: i32 = row.get(0);
    if version < SERVER_VERSION_MIN {
        return refused("Postgres 13 or newer is needed");
    }
    if row.get::<_, &str>(1) != "UTF8" {
        return refused("its encoding must be UTF8");
    }
    if ["off", "local"].contains(&row.get::<_, &str>(2)) {
        return refused(
            "synchronous_commit is off for it, so that what is acknowledged may be lost; turn it on \
             for this database or role (ALTER DATABASE … SET synchronous_commit = on)",
        );
    }
    if row.get::<_, &str>(4) != "read committed" {
        return refused("default_transaction_isolation must be 'read committed'");
    }
    if row.get(5) {
        return refused("it is a standby, which cannot be written to");
    }
    if row.get::<_, &str>(3) != "on" {
        tracing::warn!(
            "this Postgres runs with fsync off: a crash of its machine may lose everything"
        );
    }
    Ok(())
}
