//! Copy and comparison of tables whose rows are the same in both stores.

use std::cmp::Ordering;
use std::collections::VecDeque;

use sha2::{Digest as _, Sha256};

#[cfg(all(feature = "blobs", feature = "server"))]
use super::server_keys::ServerKeyCounts;
use super::{TableDifference, TableDigest, TransferError};
use crate::store::postgres::{PostgresStore, fit_row_for_postgres};
use crate::store::sqlite::SqliteStore;
use crate::store::transfer::{ExportedRow, RowKey, TransferTable, hex};

/// Maximum number of rows that an error lists, by table.
const LISTED_ROWS_MAX: usize = 5;
/// Number of rows that one statement imports.
const IMPORTED_ROWS: usize = 1_000;

/// Result of the final comparison.
#[derive(Default)]
pub(super) struct CheckedTables {
    pub(super) tables: Vec<TableDigest>,
    #[cfg(all(feature = "blobs", feature = "server"))]
    pub(super) server_keys: ServerKeyCounts,
}

/// Fails if the target has rows that are not a part of this transfer. Writes nothing.
pub(super) async fn refuse_other_data(
    from: &SqliteStore,
    to: &PostgresStore,
) -> Result<(), TransferError> {
    let jobs = compare(from, to, TransferTable::JobIds, |_| {}).await?;
    // Jobs come last, so that with the first job in the target all rows of the other tables are there.
    let must_be_complete = jobs.target_rows > 0;
    let mut tables = Vec::new();
    tables.extend(jobs.difference(false));
    for table in TransferTable::COPIED {
        let found = compare(from, to, table, |_| {}).await?;
        tables.extend(found.difference(must_be_complete));
    }
    if tables.is_empty() { Ok(()) } else { Err(TransferError::OtherData { tables }) }
}

/// Copies the rows that the target does not have.
pub(super) async fn copy(
    from: &SqliteStore,
    to: &PostgresStore,
    table: TransferTable,
) -> Result<(), TransferError> {
    let mut rows = MergedRows::of(from, to, table);
    let mut missing = Vec::new();
    while let Some(pair) = rows.next().await? {
        if let RowPair { source: Some(row), target: None } = pair {
            missing.push(row);
        }
        if missing.len() >= IMPORTED_ROWS {
            to.import_rows(table, &missing).await.map_err(TransferError::Target)?;
            missing.clear();
        }
    }
    if !missing.is_empty() {
        to.import_rows(table, &missing).await.map_err(TransferError::Target)?;
    }
    Ok(())
}

/// Reads all rows back from both stores and compares them.
pub(super) async fn check(
    from: &SqliteStore,
    to: &PostgresStore,
) -> Result<CheckedTables, TransferError> {
    let mut checked = CheckedTables::default();
    // A job that is missing here cannot be read, which its copy reports.
    let jobs = compare(from, to, TransferTable::JobIds, |_| {}).await?;
    let mut differences: Vec<TableDifference> = jobs.difference(false).into_iter().collect();
    for table in TransferTable::COPIED {
        let compared = compare(from, to, table, |row| {
            #[cfg(all(feature = "blobs", feature = "server"))]
            checked.server_keys.count(table, row);
            #[cfg(not(all(feature = "blobs", feature = "server")))]
            let _ = row;
        });
        let compared = compared.await?;
        differences.extend(compared.difference(true));
        checked.tables.push(compared.into_digest());
    }
    if differences.is_empty() {
        Ok(checked)
    } else {
        Err(TransferError::RowsDiffer { tables: differences })
    }
}

/// Compares all rows of a table. Calls `on_row` for each row of the source.
async fn compare(
    from: &SqliteStore,
    to: &PostgresStore,
    table: TransferTable,
    mut on_row: impl FnMut(&ExportedRow),
) -> Result<TableComparison, TransferError> {
    let mut found = TableComparison::of(table);
    let mut rows = MergedRows::of(from, to, table);
    while let Some(RowPair { source, target }) = rows.next().await? {
        if let Some(row) = &source {
            on_row(row);
            found.source_rows += 1;
            found.hash.update(row.digest().map_err(TransferError::Source)?);
        }
        found.target_rows += u64::from(target.is_some());
        let count = match (&source, &target) {
            (Some(_), None) => &mut found.missing,
            (None, Some(_)) => &mut found.foreign,
            (Some(source), Some(target)) if source != target => &mut found.differing,
            (Some(_), Some(_)) | (None, None) => continue,
        };
        count.count += 1;
        if count.first.len() < LISTED_ROWS_MAX {
            count.first.extend(source.or(target).map(|row| row.key(table).to_string()));
        }
    }
    Ok(found)
}

/// Rows of one sort of difference.
#[derive(Default)]
struct RowCount {
    count: u64,
    /// Keys of the first rows.
    first: Vec<String>,
}

struct TableComparison {
    table: TransferTable,
    source_rows: u64,
    target_rows: u64,
    /// Of all rows of the source.
    hash: Sha256,
    missing: RowCount,
    differing: RowCount,
    foreign: RowCount,
}

impl TableComparison {
    fn of(table: TransferTable) -> Self {
        Self {
            table,
            source_rows: 0,
            target_rows: 0,
            hash: Sha256::new(),
            missing: RowCount::default(),
            differing: RowCount::default(),
            foreign: RowCount::default(),
        }
    }

    /// Returns the difference, if there is one. Rows that are missing in the target count only if it `must_be_complete`.
    fn difference(&self, must_be_complete: bool) -> Option<TableDifference> {
        let none = RowCount::default();
        let missing = if must_be_complete { &self.missing } else { &none };
        let counts = [&self.foreign, &self.differing, missing];
        let rows: Vec<String> = counts.iter().flat_map(|count| count.first.clone()).collect();
        (!rows.is_empty()).then(|| TableDifference {
            name: self.table.name(),
            missing: missing.count,
            differing: self.differing.count,
            foreign: self.foreign.count,
            rows,
        })
    }

    /// Returns the digest of the source's rows, which is the target's if there is no difference.
    fn into_digest(self) -> TableDigest {
        let sha256 = hex(&self.hash.finalize());
        TableDigest { name: self.table.name(), rows: self.source_rows, sha256 }
    }
}

/// The rows with one key, of which one may be missing.
struct RowPair {
    source: Option<ExportedRow>,
    target: Option<ExportedRow>,
}

/// Rows of both stores in the order of their keys.
struct MergedRows<'a> {
    source: RowStream<'a, SqliteStore>,
    target: RowStream<'a, PostgresStore>,
}

impl<'a> MergedRows<'a> {
    fn of(from: &'a SqliteStore, to: &'a PostgresStore, table: TransferTable) -> Self {
        Self { source: RowStream::of(from, table), target: RowStream::of(to, table) }
    }

    async fn next(&mut self) -> Result<Option<RowPair>, TransferError> {
        let order = match (self.source.peek().await?, self.target.peek().await?) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(source), Some(target)) => source.cmp(target),
        };
        let source = if order.is_le() { self.source.take() } else { None };
        let target = if order.is_ge() { self.target.take() } else { None };
        Ok(Some(RowPair { source, target }))
    }
}

/// Rows of one store, read page by page.
struct RowStream<'a, S> {
    store: &'a S,
    table: TransferTable,
    /// Cursor of the next page; `None` after the last one.
    next: Option<Vec<String>>,
    page: VecDeque<(RowKey, ExportedRow)>,
}

impl<'a, S: RowPages> RowStream<'a, S> {
    fn of(store: &'a S, table: TransferTable) -> Self {
        Self { store, table, next: Some(table.start()), page: VecDeque::new() }
    }

    /// Returns the key of the next row.
    async fn peek(&mut self) -> Result<Option<&RowKey>, TransferError> {
        if self.page.is_empty()
            && let Some(after) = self.next.take()
        {
            self.page = self.store.page(self.table, after).await?;
            self.next = self.page.back().map(|(key, _)| key.to_cursor());
        }
        Ok(self.page.front().map(|(key, _)| key))
    }

    fn take(&mut self) -> Option<ExportedRow> {
        self.page.pop_front().map(|(_, row)| row)
    }
}

/// A store whose rows are read page by page.
trait RowPages {
    /// Returns the rows after a cursor, in a form that Postgres can store; none after the last one.
    async fn page(
        &self,
        table: TransferTable,
        after: Vec<String>,
    ) -> Result<VecDeque<(RowKey, ExportedRow)>, TransferError>;
}

impl RowPages for SqliteStore {
    async fn page(
        &self,
        table: TransferTable,
        after: Vec<String>,
    ) -> Result<VecDeque<(RowKey, ExportedRow)>, TransferError> {
        let rows = self.export_rows(table, after).await.map_err(TransferError::Source)?;
        // The key is taken first, because it is this store's cursor.
        Ok(rows.into_iter().map(|row| (row.key(table), fit_row_for_postgres(row))).collect())
    }
}

impl RowPages for PostgresStore {
    async fn page(
        &self,
        table: TransferTable,
        after: Vec<String>,
    ) -> Result<VecDeque<(RowKey, ExportedRow)>, TransferError> {
        let rows = self.export_rows(table, &after).await.map_err(TransferError::Target)?;
        Ok(rows.into_iter().map(|row| (row.key(table), row)).collect())
    }
}
