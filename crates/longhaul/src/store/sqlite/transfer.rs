//! Export of all data, page by page, for a copy to another store.

use rusqlite::types::ValueRef;
use serde_json::Value;

use crate::job::{JobId, Status, TenantId};
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::transfer::{ExportedJob, ExportedRow, TransferTable, hex};

/// Maximum number of jobs per page.
const JOBS_MAX: usize = 500;
/// Size after which a page ends, in bytes.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of rows of other tables per page.
const ROWS_MAX: usize = 1_000;

/// Tenant and id of the last job of a page.
pub(crate) type Cursor = (String, String);

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
        let counted = self.read_list(|tx| Ok(tx.one(sql::COUNT_JOBS, [])?)).await?;
        Ok(counted.unwrap_or_default())
    }

    /// Returns the jobs after a cursor, by tenant and id. Running jobs are released.
    pub(crate) async fn export_jobs(&self, after: Cursor) -> Result<ExportPage, StoreError> {
        self.read_list(move |tx| jobs(tx, &after)).await
    }

    /// Returns rows of a table after a cursor.
    pub(crate) async fn export_rows(
        &self,
        table: TransferTable,
        after: Vec<String>,
    ) -> Result<Vec<ExportedRow>, StoreError> {
        self.read_list(move |tx| Ok(rows(tx, table, &after)?)).await
    }
}

fn export_statement(table: TransferTable) -> &'static str {
    match table {
        TransferTable::PausedQueues => sql::EXPORT_PAUSED_QUEUES,
        TransferTable::LimitCounters => sql::EXPORT_LIMIT_COUNTERS,
        TransferTable::Tenants => sql::EXPORT_TENANTS,
        TransferTable::ApiKeys => sql::EXPORT_API_KEYS,
        TransferTable::Endpoints => sql::EXPORT_ENDPOINTS,
        TransferTable::BillingEvents => sql::EXPORT_BILLING_EVENTS,
        TransferTable::Audit => sql::EXPORT_AUDIT,
        TransferTable::Usage => sql::EXPORT_USAGE,
        TransferTable::Tombstones => sql::EXPORT_TOMBSTONES,
        TransferTable::Blobs => sql::EXPORT_BLOBS,
        TransferTable::JobIds => sql::EXPORT_JOB_IDS,
    }
}

/// Reads rows with the names of their columns, so that a new column cannot be left out.
fn rows(tx: &Tx<'_>, table: TransferTable, after: &[String]) -> rusqlite::Result<Vec<ExportedRow>> {
    let mut statement = tx.conn.prepare(export_statement(table))?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let count = limit(ROWS_MAX);
    let mut params: Vec<&dyn rusqlite::ToSql> = Vec::new();
    params.extend(after.iter().map(|part| part as &dyn rusqlite::ToSql));
    params.push(&count);
    let exported = statement.query_map(params.as_slice(), |row| {
        let value = |(index, column): (usize, &String)| {
            Ok((column.clone(), json_value(index, row.get_ref(index)?)?))
        };
        columns.iter().enumerate().map(value).collect::<Result<_, _>>().map(ExportedRow)
    })?;
    exported.collect()
}

fn json_value(index: usize, value: ValueRef<'_>) -> rusqlite::Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text);
            text.map_err(|error| rusqlite::Error::Utf8Error(index, error))?.into()
        }
        ValueRef::Blob(bytes) => format!("\\x{}", hex(bytes)).into(),
        ValueRef::Real(_) => {
            let kind = rusqlite::types::Type::Real;
            return Err(rusqlite::Error::InvalidColumnType(index, String::new(), kind));
        }
    })
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

fn is_named((tenant, id): &Cursor) -> bool {
    TenantId::stored(tenant).is_some() && id.parse::<JobId>().is_ok()
}

fn parcel(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<ExportedJob> {
    let row = JobRow::load(tx, seq)?;
    let history = row.history(tx)?;
    let JobRow { stored: entry, fingerprint, .. } = row;
    let result =
        if entry.job.status == Status::Completed { tx.one(sql::RESULT, [seq])? } else { None };
    Ok(ExportedJob {
        entry,
        fingerprint: Some(fingerprint),
        input: find::input_of(tx, seq)?,
        result,
        history,
        steps: find::steps_of(tx, seq)?,
        used: None,
    })
}
