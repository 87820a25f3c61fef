//! Row-level security as a second line of defence for tenant isolation.
//!
//! The first line is that every statement names its tenant. Statements on behalf of one tenant also run
//! as the role `longhaul_tenant`, which sees the rows of that tenant only. Roles belong to the whole
//! cluster and not every user may create them, so the role is set up at every start and not by a
//! migration. A database without it works too, with a warning.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Client;

use super::migrate::connect_error;
use crate::job::TenantId;
use crate::store::postgres::connection::database::PgDatabase;
use crate::store::postgres::connection::error::{PgError, describe};
use crate::store::postgres::{OpenError, sql};

/// Minimum server version. Older ones check access through a view as the view's owner, which sees
/// everything.
const SERVER_VERSION_MIN: i32 = 150_000;
/// Maximum number of passes. Other processes may set the role up at the same moment, also in another
/// database of the cluster, beyond the reach of our lock.
const PASSES_MAX: u32 = 10;
/// Pause before the third pass; it grows by the same amount with each further one.
const PAUSE: Duration = Duration::from_millis(20);

/// State of row-level security in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowSecurity {
    /// Active, or active from the first start on.
    Active,
    /// Inactive until an administrator has run these commands and a process has restarted.
    Missing(Vec<String>),
    /// Not possible, for this reason.
    Unsupported(String),
}

impl fmt::Display for RowSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => f.write_str("row-level security is active"),
            Self::Missing(commands) => {
                f.write_str("row-level security needs an administrator to run: ")?;
                f.write_str(&commands.join("; "))
            }
            Self::Unsupported(why) => write!(f, "no row-level security: {why}"),
        }
    }
}

/// Returns the beginning of a transaction that can see and write the rows of one tenant only. All its
/// settings end with the transaction, so that it works behind a pooler.
pub(crate) fn begin(begin: &str, tenant: &TenantId) -> String {
    // A tenant's name contains no quotes; escape them nevertheless.
    let tenant = tenant.as_str().replace('\'', "''");
    format!("{begin};SET LOCAL ROLE longhaul_tenant;SET LOCAL longhaul.tenant='{tenant}'")
}

/// Sets row-level security up as far as this user may, and uses it if it works.
pub(crate) async fn enable(database: &PgDatabase) -> Result<(), OpenError> {
    let client = database.dedicated_connection().await.map_err(connect_error)?;
    let state = try_enable(&client).await.map_err(to_open_error)?;
    database.set_row_security(state == RowSecurity::Active);
    if state != RowSecurity::Active {
        tracing::warn!(
            "tenants are isolated by the program only, not also by the database: {state}"
        );
    }
    Ok(())
}

async fn try_enable(client: &Client) -> Result<RowSecurity, tokio_postgres::Error> {
    for pass in 0..PASSES_MAX {
        let permitted = missing(client).await?.into_iter().filter(|(_, may_run)| *may_run);
        let mut is_done = true;
        for (command, _) in permitted {
            is_done = false;
            // If another process was faster, the next pass finds out what is left.
            if let Err(error) = client.batch_execute(&command).await {
                tracing::debug!(command, error = %describe(&error), "cannot set row security up");
            }
        }
        if is_done {
            break;
        }
        if pass > 0 {
            tokio::time::sleep(PAUSE * pass).await;
        }
    }
    let state = inspect(client).await?;
    if state != RowSecurity::Active {
        return Ok(state);
    }
    // Everything is set up; check that it has an effect.
    let works = is_effective(client).await;
    client.batch_execute("ROLLBACK").await?;
    Ok(match works {
        Ok(true) => RowSecurity::Active,
        Ok(false) => RowSecurity::Unsupported(
            "the role longhaul_tenant bypasses it: the role must own nothing here, and have neither \
             SUPERUSER nor BYPASSRLS"
                .to_owned(),
        ),
        Err(error) => RowSecurity::Unsupported(describe(&error)),
    })
}

/// Inspects the state without changing it. Parts that this user may set up count as present.
pub(crate) async fn inspect(client: &Client) -> Result<RowSecurity, tokio_postgres::Error> {
    if is_too_old(client).await? {
        return Ok(RowSecurity::Unsupported("Postgres 15 or newer is needed".to_owned()));
    }
    let forbidden = missing(client).await?.into_iter().filter(|(_, may_run)| !may_run);
    let commands: Vec<String> = forbidden.map(|(command, _)| command).collect();
    Ok(if commands.is_empty() { RowSecurity::Active } else { RowSecurity::Missing(commands) })
}

/// Returns the commands that are left to run, and whether this user may run each.
async fn missing(client: &Client) -> Result<Vec<(String, bool)>, tokio_postgres::Error> {
    let rows = client.query_typed(sql::MISSING_ROW_SECURITY, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn is_too_old(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let version = "SELECT current_setting('server_version_num')::integer";
    let rows = client.query_typed(version, &[]).await?;
    let version = rows.first().map_or(Ok(0), |row| row.try_get::<_, i32>(0))?;
    Ok(version < SERVER_VERSION_MIN)
}

/// Returns whether policies apply to the role. Leaves a transaction open.
async fn is_effective(client: &Client) -> Result<bool, tokio_postgres::Error> {
    client.batch_execute("BEGIN;SET LOCAL ROLE longhaul_tenant").await?;
    let rows = client.query_typed(sql::ROW_SECURITY_WORKS, &[]).await?;
    rows.first().map_or(Ok(false), |row| row.try_get(0))
}

pub(crate) fn to_open_error(error: tokio_postgres::Error) -> OpenError {
    connect_error(PgError::Database(error))
}
