//! Import of all data from another store.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::connection::columns::{
    Columns, int, limit, millis, read_all, to_json, unreadable, without_nul,
};
use super::connection::error::{PgError, to_store_error};
use super::connection::params::Param;
use super::row::JobRow;
use super::settle::TenantJob;
use super::{Inner, PostgresStore, maintenance::usage, sql};
use crate::job::{Fingerprint, JobId, Json, Step, TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::columns::ReadColumns;
use crate::store::transfer::{ExportedJob, ExportedRow, TransferTable, hex};

/// Size in bytes after which a statement that imports steps ends.
const STEP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of rows of other tables per page.
const ROWS_MAX: usize = 1_000;

impl PostgresStore {
    /// Returns the stored copies of these jobs.
    pub(crate) async fn export_jobs(
        &self,
        keys: &[TenantJob],
    ) -> Result<HashMap<TenantJob, ExportedJob>, StoreError> {
        self.inner.parcels(keys).await.map_err(to_store_error)
    }

    /// Imports jobs, all or none. Returns the keys of those that could be inserted: if fewer than all,
    /// none was.
    pub(crate) async fn import_jobs(
        &self,
        parcels: &[ExportedJob],
    ) -> Result<HashSet<TenantJob>, StoreError> {
        self.inner.import(parcels).await.map_err(to_store_error)
    }

    /// Returns rows of a table after a cursor.
    pub(crate) async fn export_rows(
        &self,
        table: TransferTable,
        after: &[String],
    ) -> Result<Vec<ExportedRow>, StoreError> {
        self.inner.export_rows(table, after).await.map_err(to_store_error)
    }

    /// Imports rows of a table. Rows that exist here are left unchanged.
    pub(crate) async fn import_rows(
        &self,
        table: TransferTable,
        rows: &[ExportedRow],
    ) -> Result<(), StoreError> {
        self.inner.import_rows(table, rows).await.map_err(to_store_error)
    }

    /// Enqueues the imported jobs.
    pub(crate) async fn import_ended(&self) -> Result<(), StoreError> {
        self.inner.enqueue_incoming().await.map_err(to_store_error)?;
        self.inner.notify.jobs_ready();
        Ok(())
    }
}

impl Inner {
    async fn parcels(
        &self,
        keys: &[TenantJob],
    ) -> Result<HashMap<TenantJob, ExportedJob>, PgError> {
        let (tenants, ids): (Vec<&TenantId>, Vec<JobId>) =
            keys.iter().map(|(tenant, id)| (tenant, *id)).unzip();
        let mut connection = self.database.connection().await?;
        let mut found = HashMap::new();
        for row in connection.query(sql::EXPORT_JOBS, &[&tenants, &ids]).await? {
            let parcel = parcel(&row)?;
            found.insert(parcel.key(), parcel);
        }
        if !found.is_empty() {
            let steps: Vec<(TenantJob, Step)> =
                connection.all(sql::STEPS, &[&tenants, &ids]).await?;
            for (key, step) in steps {
                if let Some(parcel) = found.get_mut(&key) {
                    parcel.steps.push(step);
                }
            }
        }
        Ok(found)
    }

    async fn import(&self, parcels: &[ExportedJob]) -> Result<HashSet<TenantJob>, PgError> {
        let jobs = parcels.iter().map(job).collect::<Result<Vec<Value>, _>>()?;
        let jobs = to_json(&jobs)?;
        let connection = self.database.connection().await?;
        let (transaction, rows) = connection.begin((sql::IMPORT_JOBS, &[&jobs]), None).await?;
        let taken: HashSet<TenantJob> = read_all(&rows)?.into_iter().collect();
        if taken.len() < parcels.len() {
            transaction.roll_back().await?;
            return Ok(taken);
        }
        for steps in steps_in_parts(parcels) {
            transaction.query(sql::IMPORT_STEPS, &[&to_json(&steps)?]).await?;
        }
        let used = parcels.iter().filter_map(|parcel| {
            let row = parcel.used.as_ref()?;
            Some(usage::usage_json(&parcel.entry.job.tenant, row))
        });
        let used: Vec<Value> = used.collect();
        if !used.is_empty() {
            transaction.query(sql::ADD_USAGE, &[&to_json(&used)?]).await?;
        }
        transaction.commit().await?;
        Ok(taken)
    }

    async fn export_rows(
        &self,
        table: TransferTable,
        after: &[String],
    ) -> Result<Vec<ExportedRow>, PgError> {
        let count = limit(ROWS_MAX);
        let mut params: Vec<&dyn Param> = Vec::new();
        params.extend(after.iter().map(|part| part as &dyn Param));
        params.push(&count);
        let rows: Vec<String> = self.all(export_statement(table), &params).await?;
        rows.iter().map(|row| exported_row(row)).collect()
    }

    async fn import_rows(&self, table: TransferTable, rows: &[ExportedRow]) -> Result<(), PgError> {
        let rows: Vec<_> = rows.iter().map(|row| &row.0).collect();
        let tables = to_json(&HashMap::from([(table.name(), rows)]))?;
        self.run(sql::IMPORT_ROWS, &[&tables]).await.map(|_| ())
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

/// Parses a row that Postgres returned as JSON.
fn exported_row(json: &str) -> Result<ExportedRow, PgError> {
    let columns: Map<String, Value> = serde_json::from_str(json).map_err(unreadable)?;
    let columns = columns.into_iter().map(|(column, value)| match value.as_bool() {
        Some(truth) => (column, u8::from(truth).into()),
        None => (column, value),
    });
    Ok(ExportedRow(columns.collect()))
}

/// Reads a row of `export_jobs.sql`, without the steps.
fn parcel(row: &tokio_postgres::Row) -> Result<ExportedJob, PgError> {
    let mut columns = Columns::of(row);
    let row = JobRow::read(&mut columns)?;
    let (settled, since): (Option<String>, Option<String>) = columns.get()?;
    let (result, input) = columns.get()?;
    let history = row.stored_history(settled.as_deref(), since.as_deref())?;
    let fingerprint: Option<[u8; 32]> = columns.seek("fingerprint")?.get()?;
    let (entry, fingerprint) = (row.entry, fingerprint.map(Fingerprint::from_bytes));
    let steps = Vec::new();
    Ok(ExportedJob { entry, fingerprint, input, result, history, steps, used: None })
}

/// Returns the columns of a job by name.
fn job(parcel: &ExportedJob) -> Result<Value, PgError> {
    let ExportedJob { entry, fingerprint, input, result, history, .. } = parcel;
    let job = &entry.job;
    let at = |instant: Option<Timestamp>| instant.map(Timestamp::as_millis);
    // In the text format of `bytea`.
    let fingerprint = fingerprint.map(|digest| format!("\\x{}", hex(digest.as_bytes())));
    Ok(json!({
        "tenant_id": job.tenant.as_str(),
        "id": job.id.to_string(),
        "kind": job.kind.as_str(),
        "queue": job.queue.as_str(),
        "status": job.status.as_str(),
        "priority": job.priority,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "attempt_base": entry.attempt_base,
        "charge": entry.charge,
        "epoch": int(entry.epoch),
        "version": int(job.version),
        "labels": job.labels,
        "idempotency_key": job.idempotency_key,
        "fingerprint": fingerprint,
        "created_at": job.created_at.as_millis(),
        "run_at": job.run_at.as_millis(),
        "started_at": at(job.started_at),
        "completed_at": at(job.completed_at),
        "expires_at": at(job.expires_at),
        "cancel_requested_at": at(job.cancel_requested_at),
        "timeout_ms": job.timeout.map(millis),
        "retention_completed_ms": millis(entry.retention.completed),
        "retention_failed_ms": millis(entry.retention.failed),
        "progress": job.progress.as_ref().map(to_json).transpose()?,
        "error": job.error.as_ref().map(to_json).transpose()?,
        "code_version": job.code_version,
        "forked_from": job.forked_from.map(|id| id.to_string()),
        "parent_id": job.parent_id.map(|id| id.to_string()),
        "input": input.as_str(),
        "result": result.as_ref().map(Json::as_str),
        "history": history,
        "has_payload": job.has_payload,
        "key_id": entry.tally.key,
        "run_ms": int(entry.tally.run_ms),
        "payload_bytes": int(entry.tally.payload_bytes),
        "metered": entry.tally.metered,
        "metered_steps": int(entry.tally.metered_steps),
        "webhook": entry.webhook.as_ref().map(to_json).transpose()?,
        "artifacts": (!job.artifacts.is_empty()).then(|| to_json(&job.artifacts)).transpose()?,
    }))
}

/// Returns the columns of all steps by name, in parts of the size of one statement.
fn steps_in_parts(parcels: &[ExportedJob]) -> Vec<Vec<Value>> {
    let (mut parts, mut bytes) = (Vec::new(), usize::MAX);
    for parcel in parcels {
        let (tenant, id) = (parcel.entry.job.tenant.as_str(), parcel.entry.job.id.to_string());
        for step in &parcel.steps {
            if bytes > STEP_BYTES_MAX {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += step.output.as_str().len();
            if let Some(part) = parts.last_mut() {
                part.push(step_row(tenant, &id, step));
            }
        }
    }
    parts
}

fn step_row(tenant: &str, id: &str, step: &Step) -> Value {
    json!({
        "tenant_id": tenant,
        "id": id,
        "name": step.name,
        "position": step.position,
        "output": step.output.as_str(),
        "alone": step.alone,
        "attempt": step.attempt,
        "started_at": step.started_at.as_millis(),
        "completed_at": step.completed_at.as_millis(),
    })
}

/// Replaces NUL in a text.
fn fit(text: &mut String) {
    if text.contains('\0') {
        *text = without_nul(text).into_owned();
    }
}

/// Returns the row in a form that Postgres can store.
pub(crate) fn fit_row_for_postgres(mut row: ExportedRow) -> ExportedRow {
    for value in row.0.values_mut() {
        if let Value::String(text) = value {
            fit(text);
        }
    }
    row
}

/// Returns the job in a form that Postgres can store.
pub(crate) fn fit_for_postgres(mut parcel: ExportedJob) -> ExportedJob {
    let job = &mut parcel.entry.job;
    let labels = std::mem::take(&mut job.labels).into_iter().map(|(mut name, mut value)| {
        fit(&mut name);
        fit(&mut value);
        (name, value)
    });
    job.labels = labels.collect();
    job.code_version.iter_mut().for_each(fit);
    parcel.steps.iter_mut().for_each(|step| fit(&mut step.name));
    parcel
}
