//! The second wall between tenants: row-level security.
//!
//! The first is that every statement names its tenant. What is done in one tenant's name is also run as
//! a role that sees that tenant's rows and no others (migration 8). Roles belong to the whole cluster
//! and not everybody may create them, so this is looked after at every start and not by a migration; a
//! database that lacks it works as before, and says so.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Client;

use super::database::Database;
use super::error::{Trouble, describe};
use super::migrate::connect_error;
use super::{OpenError, sql};
use crate::job::TenantId;

/// Older servers judge what is read through a view as the view's owner, who sees everything.
const SERVER_VERSION_MIN: i32 = 150_000;
/// How often what is missing is looked for: others may be putting it up in the same moment, also in
/// another database of the cluster, where no lock of ours reaches.
const LOOKS: u32 = 10;
/// Before the second look; the third waits twice as long, and so on.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether the database itself keeps tenants apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wall {
    /// It does, or will from the first start on.
    Stands,
    /// It does not until somebody who may has run these commands and a process was started again.
    Missing(Vec<String>),
    /// It cannot, and this is why.
    Impossible(String),
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stands => f.write_str("row-level security keeps tenants apart too"),
            Self::Missing(commands) => {
                f.write_str("row-level security needs an administrator to run: ")?;
                f.write_str(&commands.join("; "))
            }
            Self::Impossible(why) => write!(f, "no row-level security: {why}"),
        }
    }
}

/// How a transaction begins in which nothing but this tenant's rows can be seen or written. All of it
/// ends with the transaction, so that it can be used behind a pooler.
pub(super) fn begin(begin: &str, tenant: &TenantId) -> String {
    // A tenant's name has no quotes; if ever it had, it would still be a name.
    let tenant = tenant.as_str().replace('\'', "''");
    format!("{begin};SET LOCAL ROLE longhaul_tenant;SET LOCAL longhaul.tenant='{tenant}'")
}

/// Puts the wall up as far as this user may, and uses it if it stands.
pub(super) async fn raise(database: &Database) -> Result<(), OpenError> {
    let client = database.own_connection().await.map_err(connect_error)?;
    let wall = put_up(&client).await.map_err(to_open_error)?;
    database.set_walled(wall == Wall::Stands);
    if wall != Wall::Stands {
        tracing::warn!("only this program keeps tenants apart, not the database too: {wall}");
    }
    Ok(())
}

async fn put_up(client: &Client) -> Result<Wall, tokio_postgres::Error> {
    for look in 0..LOOKS {
        let ours = missing(client).await?.into_iter().filter(|(_, may)| *may);
        let mut is_done = true;
        for (command, _) in ours {
            is_done = false;
            // Somebody else was faster: the next look tells what is left.
            if let Err(error) = client.batch_execute(&command).await {
                tracing::debug!(command, error = %describe(&error), "tried to put the wall up");
            }
        }
        if is_done {
            break;
        }
        if look > 0 {
            tokio::time::sleep(PAUSE * look).await;
        }
    }
    let wall = examine(client).await?;
    if wall != Wall::Stands {
        return Ok(wall);
    }
    // What it is made of is there; now it is leaned against.
    let tested = stands(client).await;
    client.batch_execute("ROLLBACK").await?;
    Ok(match tested {
        Ok(true) => Wall::Stands,
        Ok(false) => Wall::Impossible(
            "the role longhaul_tenant passes it: it must own nothing here, and have neither SUPERUSER \
             nor BYPASSRLS"
                .to_owned(),
        ),
        Err(error) => Wall::Impossible(describe(&error)),
    })
}

/// Looks at what there is, and changes nothing. What this user may put up counts as being there.
pub(super) async fn examine(client: &Client) -> Result<Wall, tokio_postgres::Error> {
    if is_too_old(client).await? {
        return Ok(Wall::Impossible("Postgres 15 or newer is needed".to_owned()));
    }
    let foreign = missing(client).await?.into_iter().filter(|(_, may)| !may);
    let commands: Vec<String> = foreign.map(|(command, _)| command).collect();
    Ok(if commands.is_empty() { Wall::Stands } else { Wall::Missing(commands) })
}

/// Commands that are to be run yet, and whether this user may.
async fn missing(client: &Client) -> Result<Vec<(String, bool)>, tokio_postgres::Error> {
    let rows = client.query_typed(sql::MISSING_WALL, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn is_too_old(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let asked = "SELECT current_setting('server_version_num')::integer";
    let rows = client.query_typed(asked, &[]).await?;
    let version = rows.first().map_or(Ok(0), |row| row.try_get::<_, i32>(0))?;
    Ok(version < SERVER_VERSION_MIN)
}

/// Whether the role is held by the wall. Leaves a transaction behind.
async fn stands(client: &Client) -> Result<bool, tokio_postgres::Error> {
    client.batch_execute("BEGIN;SET LOCAL ROLE longhaul_tenant").await?;
    let rows = client.query_typed(sql::WALL_STANDS, &[]).await?;
    rows.first().map_or(Ok(false), |row| row.try_get(0))
}

pub(super) fn to_open_error(error: tokio_postgres::Error) -> OpenError {
    connect_error(Trouble::Database(error))
}
