//! Export of all data, page by page, for a copy to another store.

use crate::job::{JobId, Status, TenantId, UsageRow};
use crate::store::StoreError;
use crate::store::columns::from_columns;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::maintenance::blobs;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::transfer::{ExportedJob, Tombstone};

/// Maximum number of jobs per page.
const JOBS_MAX: usize = 500;
/// Size after which a page ends, in bytes.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of tombstones per page.
const TOMBSTONES_MAX: usize = 5_000;

/// Maximum number of usage rows per page.
const USAGE_MAX: usize = 2_000;

/// Tenant and id of the last job of a page.
pub(crate) type Cursor = (String, String);

/// A tenant's usage row.
pub(crate) type TenantUsage = (TenantId, UsageRow);

/// A page of jobs.
pub(crate) struct ExportPage {
    pub(crate) parcels: Vec<ExportedJob>,
    /// Jobs that cannot be read.
    pub(crate) unreadable: Vec<Cursor>,
    pub(crate) next: Option<Cursor>,
}

impl SqliteStore {
    /// Counts all jobs.
    pub(crate) async fn export_count(&self) -> Result<u64, StoreError> {
        let counted = self.read(|tx| Ok(tx.one(sql::COUNT_JOBS, [])?)).await?;
        Ok(counted.unwrap_or_default())
    }

    /// Returns the jobs after a cursor, by tenant and id. Running jobs are released.
    pub(crate) async fn export_jobs(&self, after: Cursor) -> Result<ExportPage, StoreError> {
        self.read(move |tx| jobs(tx, &after)).await
    }

    /// Returns the tombstones after a cursor, by tenant and id.
    pub(crate) async fn export_tombstones(
        &self,
        after: Cursor,
    ) -> Result<Vec<Tombstone>, StoreError> {
        self.read(move |tx| {
            let (tenant, id) = (&after.0, &after.1);
            let page = rusqlite::params![tenant, id, limit(TOMBSTONES_MAX)];
            Ok(tx.all(sql::EXPORT_TOMBSTONES, page)?)
        })
        .await
    }

    /// Returns the identity of this file.
    pub(crate) async fn origin(&self) -> Result<String, StoreError> {
        let origin = self.read(|tx| Ok(tx.one(sql::ORIGIN, [])?)).await?;
        origin.ok_or_else(|| StoreError::Broken("the database has no identity".to_owned()))
    }

    /// Returns the usage rows after a row.
    pub(crate) async fn export_usage(
        &self,
        after: Option<TenantUsage>,
    ) -> Result<Vec<TenantUsage>, StoreError> {
        self.read(move |tx| {
            let (tenant, hour, kind, key) = match &after {
                Some((tenant, row)) => {
                    (tenant.as_str(), row.hour.as_millis(), row.kind.as_str(), row.key.as_deref())
                }
                None => ("", i64::MIN, "", None),
            };
            let key = key.unwrap_or_default();
            let page = rusqlite::params![tenant, hour, kind, key, limit(USAGE_MAX)];
            Ok(tx.all(sql::EXPORT_USAGE, page)?)
        })
        .await
    }

    /// Returns the paused queues by tenant and name.
    pub(crate) async fn export_paused_queues(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.read(|tx| Ok(tx.all(sql::EXPORT_PAUSED_QUEUES, [])?)).await
    }
}

fn jobs(tx: &Tx<'_>, after: &Cursor) -> Result<ExportPage, SqliteError> {
    let wanted = rusqlite::params![after.0, after.1, limit(JOBS_MAX)];
    let found: Vec<(Cursor, i64)> = tx.all(sql::EXPORT_JOBS, wanted)?;
    let mut page = ExportPage { parcels: Vec::new(), unreadable: Vec::new(), next: None };
    let (mut bytes, all) = (0, found.len());
    for (place, (cursor, seq)) in found.into_iter().enumerate() {
        if is_named(&cursor) {
            match parcel(tx, seq) {
                Ok(parcel) => {
                    bytes += parcel.bytes();
                    page.parcels.push(parcel.released()?);
                }
                Err(error) if crate::store::sqlite::claim::quarantine::is_unreadable(&error) => {
                    page.unreadable.push(cursor.clone());
                }
                Err(error) => return Err(error.into()),
            }
        } else {
            page.unreadable.push(cursor.clone());
        }
        if bytes >= BYTES_MAX || place + 1 == all {
            page.next = Some(cursor);
            break;
        }
    }
    Ok(page)
}

from_columns! {
    Tombstone { tenant, id, gone_at }
}

fn is_named((tenant, id): &Cursor) -> bool {
    TenantId::stored(tenant).is_some() && id.parse::<JobId>().is_ok()
}

fn parcel(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<ExportedJob> {
    let row = JobRow::load(tx, seq)?;
    let history = row.history(tx)?;
    let JobRow { stored: entry, fingerprint, .. } = row;
    let result =
        if entry.job.status == Status::Completed { tx.one(sql::RESULT, [seq])? } else { None };
    let (tenant, id) = (entry.job.tenant.clone(), entry.job.id);
    let blobs = match blobs::blobs(tx, &tenant, id) {
        Ok(blobs) => blobs,
        Err(SqliteError::Database(error)) => return Err(error),
        Err(SqliteError::Rejected(_)) => Vec::new(),
    };
    Ok(ExportedJob {
        entry,
        fingerprint: Some(fingerprint),
        input: find::input_of(tx, seq)?,
        result,
        history,
        steps: find::steps_of(tx, seq)?,
        blobs,
        used: None,
    })
}
