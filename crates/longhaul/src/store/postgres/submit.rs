//! Submission of jobs, and forks of existing jobs.

use std::collections::{HashMap, HashSet};

use super::batch::columns;
use super::connection::columns::{int, millis, read_all, small, to_json, without_nul};
use super::connection::database::{Connection, Transaction};
use super::connection::error::{PgError, to_store_error};
use super::connection::params::Param;
use super::control::queue_position;
use super::maintenance::blobs::NewBlobs;
use super::outbox::Outbox;
use super::queries::find;
use super::row::JobRow;
use super::settle::{TenantJob, job_key};
use super::{Inner, sql};
use crate::job::{Fingerprint, Job, JobId, Json, Name, Record, TenantId, Timestamp};
use crate::store::columns::{FromRow, ReadColumns};
use crate::store::stored_job::StoredJob;
use crate::store::{BlobRole, NewJob, StoreError, SubmitResult};

/// Returns the approximate size of a submission.
pub(super) fn bytes_of(new: &NewJob) -> usize {
    new.input.as_str().len() + 512
}

impl Inner {
    /// Accepts a batch of jobs. Each succeeds or fails on its own.
    pub(super) async fn submit_batch(
        &self,
        jobs: Vec<NewJob>,
    ) -> Vec<Result<SubmitResult, StoreError>> {
        let submitted = retrying!(is_retry => self.try_submit(&jobs, is_retry));
        if submitted.is_ok() {
            self.notify.jobs_ready();
        }
        submitted.unwrap_or_else(|error| vec![Err(error); jobs.len()])
    }

    async fn try_submit(
        &self,
        jobs: &[NewJob],
        is_retry: bool,
    ) -> Result<Vec<Result<SubmitResult, StoreError>>, PgError> {
        let now = self.clock.now();
        let entries: Vec<StoredJob> =
            jobs.iter().map(|new| StoredJob::accepted(new, now)).collect();
        let mut outbox = self.outbox().await?;
        for entry in &entries {
            outbox.add(entry, None);
        }
        let mut connection = self.database.connection().await?;
        let inserted = if !outbox.is_empty() || jobs.iter().any(|new| new.payload.is_some()) {
            let inserted =
                insert_with_payloads(connection, jobs, &entries, &mut outbox, now).await?;
            self.notify_outbox(&outbox);
            connection = self.database.connection().await?;
            Some(inserted)
        } else {
            insert(&mut connection, &submit_batch(jobs, &entries)?, is_retry).await?
        };
        let is_inserted = |new: &NewJob| {
            let is_in = |ids: &HashSet<TenantJob>| ids.contains(&(new.tenant.clone(), new.id));
            inserted.as_ref().is_none_or(is_in)
        };
        let mut results = Vec::with_capacity(jobs.len());
        let mut existing = None;
        for (new, entry) in jobs.iter().zip(entries) {
            if is_inserted(new) {
                results.push(Ok(SubmitResult { record: JobRow::new_record(entry), created: true }));
                continue;
            }
            if existing.is_none() {
                existing = Some(ExistingJobs::read(&mut connection, jobs).await?);
            }
            let result = existing.as_ref().map(|existing| existing.result(new, is_retry));
            results.push(result.unwrap_or(Err(StoreError::NotFound)));
        }
        Ok(results)
    }

    /// Creates a job from the input and the first steps of another one.
    pub(super) async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, PgError> {
        let mut outbox = self.outbox().await?;
        let mut connection = self.database.tenant_connection(tenant).await?;
        let old = find::row(&mut connection, tenant, id).await?;
        let from = match from_step {
            Some(name) => Some(step_position(&mut connection, tenant, id, name).await?),
            None => None,
        };
        // The statement counts the steps that the fork begins with.
        let entry = old.entry.fork(new_id, 0, self.clock.now())?;
        let job = &entry.job;
        let max_attempts = small(job.max_attempts);
        let params: &[&dyn Param] = &[tenant, &id, &new_id, &max_attempts, &job.created_at, &from];
        let (transaction, forked) = connection.begin((sql::FORK_JOB, params), None).await?;
        if forked.is_empty() {
            // The id exists: an earlier attempt of this fork, whose response was lost, may have created it.
            transaction.roll_back().await?;
            let mut connection = self.database.tenant_connection(tenant).await?;
            let existing = find::row(&mut connection, tenant, new_id).await?.entry.job;
            if existing.forked_from == Some(id) {
                return Ok(existing);
            }
            return Err(StoreError::KeyReused { existing: new_id }.into());
        }
        transaction.query(sql::ENQUEUE, &queue_position(job)).await?;
        outbox.add(&entry, None);
        self.commit_with_outbox(transaction, &outbox, job.created_at).await?;
        self.notify.jobs_ready();
        Ok(entry.job)
    }
}

async fn step_position(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
    name: &str,
) -> Result<i32, PgError> {
    let found = connection.first(sql::FIND_STEP, &[tenant, &id, &name]).await?;
    found.ok_or_else(|| StoreError::UnknownStep { name: name.to_owned() }.into())
}

/// Inserts jobs. Returns the inserted ones, or `None` for all; those whose id or idempotency key exists are left
/// out.
async fn insert(
    connection: &mut Connection,
    batch: &SubmitBatch<'_>,
    is_retry: bool,
) -> Result<Option<HashSet<TenantJob>>, PgError> {
    // An id exists only if the response of an earlier attempt was lost.
    if !is_retry && batch.idempotency_key.iter().all(Option::is_none) {
        match connection.query(sql::INSERT_JOBS_WITHOUT_KEYS, &batch.params()).await {
            Ok(_) => return Ok(None),
            Err(error) if error.is_unique_violation() => {}
            Err(error) => return Err(error),
        }
    }
    let inserted = connection.all(sql::INSERT_JOBS, &batch.params()).await?;
    Ok(Some(inserted.into_iter().collect()))
}

/// Inserts jobs with their payloads and deliveries in one transaction. Returns the inserted jobs; those
/// whose id or idempotency key exists are left out.
async fn insert_with_payloads(
    connection: Connection,
    jobs: &[NewJob],
    entries: &[StoredJob],
    outbox: &mut Outbox,
    now: Timestamp,
) -> Result<HashSet<TenantJob>, PgError> {
    let batch = submit_batch(jobs, entries)?;
    let (transaction, rows) = connection.begin((sql::INSERT_JOBS, &batch.params()), None).await?;
    let inserted: HashSet<TenantJob> = read_all(&rows)?.into_iter().collect();
    let mut blobs = NewBlobs::default();
    for new in jobs.iter().filter(|new| inserted.contains(&(new.tenant.clone(), new.id))) {
        let payload = new.payload.iter().map(|payload| (BlobRole::Payload, payload));
        blobs.push_all(&new.tenant, new.id, payload);
    }
    blobs.write(&transaction, now).await?;
    outbox.retain_jobs(&inserted);
    outbox.write(&transaction, now).await?;
    transaction.commit().await?;
    Ok(inserted)
}

/// Inserts jobs in a transaction of the caller.
pub(super) async fn insert_in(
    transaction: &Transaction,
    jobs: &[NewJob],
    now: Timestamp,
) -> Result<(), PgError> {
    let entries: Vec<StoredJob> = jobs.iter().map(|new| StoredJob::accepted(new, now)).collect();
    let batch = submit_batch(jobs, &entries)?;
    transaction.query(sql::INSERT_JOBS, &batch.params()).await?;
    Ok(())
}

columns! {
    /// A submitted job, in the order of the parameters of `insert_jobs.sql`.
    pub(super) struct SubmittedJob<'a> => SubmitBatch {
        tenant: &'a TenantId,
        id: JobId,
        kind: &'a Name,
        queue: &'a Name,
        priority: i32,
        max_attempts: i32,
        labels: String,
        idempotency_key: Option<&'a str>,
        fingerprint: &'a [u8],
        created_at: Timestamp,
        run_at: Timestamp,
        timeout_ms: Option<i64>,
        retention_completed_ms: i64,
        retention_failed_ms: i64,
        forked_from: Option<JobId>,
        parent_id: Option<JobId>,
        input: &'a str,
        has_payload: bool,
        key_id: Option<&'a str>,
        payload_bytes: i64,
        webhook: Option<String>,
    }
}

pub(super) fn submit_batch<'a>(
    jobs: &'a [NewJob],
    entries: &'a [StoredJob],
) -> Result<SubmitBatch<'a>, PgError> {
    let mut batch = SubmitBatch::default();
    for (new, entry) in jobs.iter().zip(entries) {
        let job = &entry.job;
        batch.push(SubmittedJob {
            tenant: &new.tenant,
            id: job.id,
            kind: &new.kind,
            queue: &new.queue,
            priority: job.priority,
            max_attempts: small(job.max_attempts),
            labels: labels(new)?,
            idempotency_key: new.idempotency_key.as_deref(),
            fingerprint: new.fingerprint.as_bytes(),
            created_at: job.created_at,
            run_at: job.run_at,
            timeout_ms: job.timeout.map(millis),
            retention_completed_ms: millis(new.retention.completed),
            retention_failed_ms: millis(new.retention.failed),
            forked_from: job.forked_from,
            parent_id: job.parent_id,
            input: new.input.as_str(),
            has_payload: job.has_payload,
            key_id: new.key_id.as_deref(),
            payload_bytes: int(entry.tally.payload_bytes),
            webhook: new.webhook.as_ref().map(to_json).transpose()?,
        });
    }
    Ok(batch)
}

pub(super) fn labels(new: &NewJob) -> Result<String, PgError> {
    let clean: HashMap<_, _> =
        new.labels.iter().map(|(name, value)| (without_nul(name), without_nul(value))).collect();
    to_json(&clean)
}

/// Existing jobs with the idempotency keys or ids of a batch.
pub(super) struct ExistingJobs {
    by_key: HashMap<(TenantId, String), JobId>,
    records: HashMap<TenantJob, (Record, Fingerprint)>,
}

impl ExistingJobs {
    pub(super) async fn read(
        connection: &mut Connection,
        jobs: &[NewJob],
    ) -> Result<Self, PgError> {
        let keyed = jobs.iter().filter_map(|new| Some((new, new.idempotency_key.as_deref()?)));
        let (tenants, keys): (Vec<&TenantId>, Vec<&str>) =
            keyed.map(|(new, key)| (&new.tenant, key)).unzip();
        let found = connection.all(sql::FIND_KEYS, &[&tenants, &keys]).await?;
        let by_key: HashMap<(TenantId, String), JobId> =
            found.into_iter().map(|(tenant, key, id)| ((tenant, key), id)).collect();
        let by_id = jobs.iter().map(|new| (new.tenant.clone(), new.id));
        let found = by_key.iter().map(|((tenant, _), id)| (tenant.clone(), *id));
        let wanted: HashSet<TenantJob> = by_id.chain(found).collect();
        let (tenants, ids): (Vec<TenantId>, Vec<JobId>) = wanted.into_iter().unzip();
        let found = connection.all(sql::FINGERPRINTS, &[&tenants, &ids]).await?;
        let mut fingerprints: HashMap<TenantJob, Fingerprint> = found.into_iter().collect();
        let mut records = HashMap::new();
        for row in connection.query(sql::RECORDS, &[&tenants, &ids]).await? {
            let record = JobRow::record(&row)?;
            let key = job_key(&record.job);
            if let Some(fingerprint) = fingerprints.remove(&key) {
                records.insert(key, (record, fingerprint));
            }
        }
        Ok(Self { by_key, records })
    }

    /// Returns the result of a submission that inserted no job: its key exists, or an earlier attempt
    /// whose response was lost has inserted it.
    pub(super) fn result(&self, new: &NewJob, is_retry: bool) -> Result<SubmitResult, StoreError> {
        let key = new.idempotency_key.clone();
        let by_key = key.and_then(|key| self.by_key.get(&(new.tenant.clone(), key)));
        let id = by_key.copied().unwrap_or(new.id);
        let Some((record, fingerprint)) = self.records.get(&(new.tenant.clone(), id)) else {
            // The job with this key was deleted meanwhile: the next attempt finds the key free.
            return Err(to_store_error(PgError::Conflict));
        };
        if *fingerprint != new.fingerprint {
            return Err(StoreError::KeyReused { existing: id });
        }
        // Ids are unique, so a job with this id was created by this submission.
        Ok(SubmitResult { record: record.clone(), created: is_retry && id == new.id })
    }
}

/// Reads a row of `fingerprints.sql`, after the key. A job that was submitted by SQL has no stored fingerprint.
impl FromRow for Fingerprint {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let (stored, kind, input): (Option<[u8; 32]>, Name, Option<Json>) = columns.get()?;
        if let Some(bytes) = stored {
            return Ok(Self::from_bytes(bytes));
        }
        let input = input.ok_or_else(|| C::unreadable("no input"))?;
        Self::of(&kind, &input, None).map_err(C::unreadable)
    }
}
