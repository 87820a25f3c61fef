//! Accepting jobs: new ones and forks.

use std::collections::{HashMap, HashSet};

use super::blobs::NewBlobs;
use super::columns::{Columns, int, millis, small, to_json, without_nul};
use super::database::{Connection, Transaction};
use super::endpoints::Owed;
use super::error::{Tries, Trouble, to_store_error};
use super::params::Param;
use super::row::Row;
use super::{Inner, find, sql};
use crate::job::{Fingerprint, Job, JobId, Json, Name, TenantId, Timestamp};
use crate::store::stored_job::StoredJob;
use crate::store::{BlobRole, NewJob, StoreError, SubmitResult};

/// About how many bytes a submission is.
pub(super) fn bytes_of(new: &NewJob) -> usize {
    new.input.as_str().len() + 512
}

impl Inner {
    /// Accepts a batch, each job on its own.
    pub(super) async fn submit_batch(
        &self,
        jobs: Vec<NewJob>,
    ) -> Vec<Result<SubmitResult, StoreError>> {
        let mut tries = Tries::default();
        let mut again = false;
        loop {
            let now = self.clock.now();
            match self.try_submit(&jobs, now, again).await {
                Ok(answers) => {
                    self.notify.line();
                    return answers;
                }
                Err(trouble) => {
                    if let Err(error) = tries.again(trouble).await {
                        return jobs.iter().map(|_| Err(error.clone())).collect();
                    }
                    again = true;
                }
            }
        }
    }

    async fn try_submit(
        &self,
        jobs: &[NewJob],
        now: Timestamp,
        again: bool,
    ) -> Result<Vec<Result<SubmitResult, StoreError>>, Trouble> {
        let entries: Vec<StoredJob> =
            jobs.iter().map(|new| StoredJob::accepted(new, now)).collect();
        let mut owed = self.owed().await?;
        for entry in &entries {
            owed.add(entry, None);
        }
        let mut connection = self.database.connection().await?;
        let accepted = if !owed.is_empty() || jobs.iter().any(|new| new.payload.is_some()) {
            let accepted = insert_with_more(connection, jobs, &entries, &mut owed, now).await?;
            self.notify_outbox(&owed);
            connection = self.database.connection().await?;
            accepted
        } else {
            insert(&mut connection, jobs, &entries).await?
        };
        let mut answers = Vec::with_capacity(jobs.len());
        let mut known = None;
        for (new, entry) in jobs.iter().zip(entries) {
            if accepted.contains(&(new.tenant.as_str().to_owned(), new.id)) {
                answers.push(Ok(SubmitResult { record: Row::new_record(entry), created: true }));
                continue;
            }
            if known.is_none() {
                known = Some(Known::look_up(&mut connection, jobs).await?);
            }
            answers.push(
                known.as_ref().map_or(Err(StoreError::NotFound), |known| known.answer(new, again)),
            );
        }
        Ok(answers)
    }

    /// Makes a job of its own from an old one and the first of its steps.
    pub(super) async fn try_fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, Trouble> {
        let (tenant_id, old_id, new_text) = (tenant.as_str(), id.to_string(), new_id.to_string());
        let mut owed = self.owed().await?;
        let mut connection = self.database.connection_of(tenant).await?;
        let old = find::row(&mut connection, tenant, id).await?;
        let from = match from_step {
            Some(name) => Some(position(&mut connection, tenant, id, name).await?),
            None => None,
        };
        // The statement counts the steps that it begins with.
        let entry = old.entry.fork(new_id, 0, self.clock.now())?;
        let job = &entry.job;
        let created_at = job.created_at.as_millis();
        let max_attempts = small(job.max_attempts);
        let (transaction, forked) = connection
            .begin(
                (
                    sql::FORK_JOB,
                    &[&tenant_id, &&*old_id, &&*new_text, &max_attempts, &created_at, &from],
                ),
                None,
            )
            .await?;
        if forked.is_empty() {
            // The id is taken: by this very fork, if its answer was lost.
            transaction.roll_back().await?;
            let mut connection = self.database.connection_of(tenant).await?;
            let existing = find::row(&mut connection, tenant, new_id).await?.entry.job;
            if existing.forked_from == Some(id) {
                return Ok(existing);
            }
            return Err(StoreError::KeyReused { existing: new_id }.into());
        }
        let (queue, kind) = (job.queue.as_str(), job.kind.as_str());
        transaction
            .query(
                sql::ENTER_LINE,
                &[&tenant_id, &queue, &kind, &job.priority, &created_at, &&*new_text],
            )
            .await?;
        owed.add(&entry, None);
        owed.write(&transaction, job.created_at).await?;
        transaction.commit().await?;
        self.notify_outbox(&owed);
        self.notify.line();
        Ok(entry.job)
    }
}

async fn position(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
    name: &str,
) -> Result<i32, Trouble> {
    let id = id.to_string();
    let found = connection.query(sql::FIND_STEP, &[&tenant.as_str(), &&*id, &name]).await?;
    match found.first() {
        Some(row) => Columns::of(row).get(),
        None => Err(StoreError::UnknownStep { name: name.to_owned() }.into()),
    }
}

/// Inserts what can be inserted; which ones that were.
async fn insert(
    connection: &mut Connection,
    jobs: &[NewJob],
    entries: &[StoredJob],
) -> Result<HashSet<(String, JobId)>, Trouble> {
    let columns = Accepted::new(jobs, entries)?;
    let inserted = connection.query(sql::INSERT_JOBS, &columns.params()).await?;
    inserted.iter().map(key).collect()
}

/// The same, with what was uploaded with them and what is owed for them, in one transaction.
async fn insert_with_more(
    connection: Connection,
    jobs: &[NewJob],
    entries: &[StoredJob],
    owed: &mut Owed,
    now: Timestamp,
) -> Result<HashSet<(String, JobId)>, Trouble> {
    let columns = Accepted::new(jobs, entries)?;
    let (transaction, inserted) =
        connection.begin((sql::INSERT_JOBS, &columns.params()), None).await?;
    let accepted: HashSet<(String, JobId)> =
        inserted.iter().map(key).collect::<Result<_, Trouble>>()?;
    let mut blobs = NewBlobs::default();
    for new in jobs.iter().filter(|new| accepted.contains(&(new.tenant.to_string(), new.id))) {
        let payload = new.payload.iter().map(|payload| (BlobRole::Payload, payload));
        blobs.push_all(&new.tenant, new.id, payload);
    }
    blobs.write(&transaction, now).await?;
    owed.keep_only(|tenant, id| accepted.contains(&(tenant.to_string(), id)));
    owed.write(&transaction, now).await?;
    transaction.commit().await?;
    Ok(accepted)
}

/// Inserts jobs in a transaction that does more.
pub(super) async fn insert_in(
    transaction: &Transaction,
    jobs: &[NewJob],
    now: Timestamp,
) -> Result<(), Trouble> {
    let entries: Vec<StoredJob> = jobs.iter().map(|new| StoredJob::accepted(new, now)).collect();
    let columns = Accepted::new(jobs, &entries)?;
    transaction.query(sql::INSERT_JOBS, &columns.params()).await?;
    Ok(())
}

fn key(row: &tokio_postgres::Row) -> Result<(String, JobId), Trouble> {
    let mut columns = Columns::of(row);
    Ok((columns.get()?, columns.id()?))
}

/// What `insert_jobs` takes, by column.
struct Accepted<'a>(Vec<Box<dyn Param + 'a>>);

impl<'a> Accepted<'a> {
    fn new(jobs: &'a [NewJob], entries: &'a [StoredJob]) -> Result<Self, Trouble> {
        fn each<T>(entries: &[StoredJob], of: impl Fn(&Job) -> T) -> Vec<T> {
            entries.iter().map(|entry| of(&entry.job)).collect()
        }
        let text = |of: fn(&NewJob) -> &str| Box::new(jobs.iter().map(of).collect::<Vec<_>>());
        let labels = jobs.iter().map(labels).collect::<Result<Vec<String>, _>>()?;
        let fingerprints: Vec<&[u8]> =
            jobs.iter().map(|new| new.fingerprint.as_bytes().as_slice()).collect();
        let keys: Vec<Option<&str>> =
            jobs.iter().map(|new| new.idempotency_key.as_deref()).collect();
        let tallies = entries.iter().map(|entry| int(entry.tally.payload_bytes));
        let webhook = |new: &NewJob| new.webhook.as_ref().map(to_json).transpose();
        let webhooks = jobs.iter().map(webhook).collect::<Result<Vec<Option<String>>, _>>()?;
        let retention = |of: fn(&NewJob) -> std::time::Duration| -> Box<Vec<i64>> {
            Box::new(jobs.iter().map(|new| millis(of(new))).collect())
        };
        Ok(Self(vec![
            text(|new| new.tenant.as_str()),
            Box::new(each(entries, |job| job.id.to_string())),
            text(|new| new.kind.as_str()),
            text(|new| new.queue.as_str()),
            Box::new(each(entries, |job| job.priority)),
            Box::new(each(entries, |job| small(job.max_attempts))),
            Box::new(labels),
            Box::new(keys),
            Box::new(fingerprints),
            Box::new(each(entries, |job| job.created_at.as_millis())),
            Box::new(each(entries, |job| job.run_at.as_millis())),
            Box::new(each(entries, |job| job.timeout.map(millis))),
            retention(|new| new.retention.completed),
            retention(|new| new.retention.failed),
            Box::new(each(entries, |job| job.forked_from.map(|id| id.to_string()))),
            Box::new(each(entries, |job| job.parent_id.map(|id| id.to_string()))),
            text(|new| new.input.as_str()),
            Box::new(each(entries, |job| job.has_payload)),
            Box::new(jobs.iter().map(|new| new.key_id.as_deref()).collect::<Vec<_>>()),
            Box::new(tallies.collect::<Vec<_>>()),
            Box::new(webhooks),
        ]))
    }

    fn params(&self) -> Vec<&dyn Param> {
        self.0.iter().map(|column| &**column as &dyn Param).collect()
    }
}

pub(super) fn labels(new: &NewJob) -> Result<String, Trouble> {
    let clean: HashMap<_, _> =
        new.labels.iter().map(|(name, value)| (without_nul(name), without_nul(value))).collect();
    to_json(&clean)
}

/// The jobs that have the keys and ids of a batch.
struct Known {
    by_key: HashMap<(String, String), JobId>,
    records: HashMap<(String, JobId), (crate::job::Record, Fingerprint)>,
}

impl Known {
    async fn look_up(connection: &mut Connection, jobs: &[NewJob]) -> Result<Self, Trouble> {
        let keyed = jobs.iter().filter_map(|new| Some((new, new.idempotency_key.as_deref()?)));
        let (tenants, keys): (Vec<&str>, Vec<&str>) =
            keyed.map(|(new, key)| (new.tenant.as_str(), key)).unzip();
        let mut by_key: HashMap<(String, String), JobId> = HashMap::new();
        for row in connection.query(sql::FIND_KEYS, &[&tenants, &keys]).await? {
            let mut columns = Columns::of(&row);
            by_key.insert((columns.get()?, columns.get()?), columns.id()?);
        }
        let by_id = jobs.iter().map(|new| (new.tenant.as_str().to_owned(), new.id));
        let found = by_key.iter().map(|((tenant, _), id)| (tenant.clone(), *id));
        let wanted: HashSet<(String, JobId)> = by_id.chain(found).collect();
        let (tenants, ids): (Vec<String>, Vec<String>) =
            wanted.into_iter().map(|(tenant, id)| (tenant, id.to_string())).unzip();
        let mut fingerprints = HashMap::new();
        for row in connection.query(sql::FINGERPRINTS, &[&tenants, &ids]).await? {
            let mut columns = Columns::of(&row);
            let key: (String, JobId) = (columns.get()?, columns.id()?);
            fingerprints.insert(key, fingerprint(&mut columns)?);
        }
        let mut records = HashMap::new();
        for row in connection.query(sql::RECORDS, &[&tenants, &ids]).await? {
            let record = Row::record(&row)?;
            let key = (record.job.tenant.as_str().to_owned(), record.job.id);
            if let Some(fingerprint) = fingerprints.remove(&key) {
                records.insert(key, (record, fingerprint));
            }
        }
        Ok(Self { by_key, records })
    }

    /// The answer to a submission that made no job now: somebody has its key, or it made one in an
    /// earlier try of ours whose answer was lost.
    fn answer(&self, new: &NewJob, again: bool) -> Result<SubmitResult, StoreError> {
        let tenant = new.tenant.as_str().to_owned();
        let key = new.idempotency_key.clone();
        let by_key = key.and_then(|key| self.by_key.get(&(tenant.clone(), key)));
        let id = by_key.copied().unwrap_or(new.id);
        let Some((record, fingerprint)) = self.records.get(&(tenant, id)) else {
            // Whoever had the key has gone since: the next try finds it free.
            return Err(to_store_error(Trouble::Overtaken));
        };
        if *fingerprint != new.fingerprint {
            return Err(StoreError::KeyReused { existing: id });
        }
        // Nobody else has this id: then it was this submission that made the job.
        Ok(SubmitResult { record: record.clone(), created: again && id == new.id })
    }
}

/// In the order of `fingerprints.sql`, after the key.
fn fingerprint(columns: &mut Columns<'_>) -> Result<Fingerprint, Trouble> {
    let stored: Option<&[u8]> = columns.get()?;
    let kind = columns.text(|text| Name::new(text).ok())?;
    let input: Option<&str> = columns.get()?;
    match (stored, input) {
        (Some(bytes), _) => {
            let bytes = <[u8; 32]>::try_from(bytes).map_err(super::columns::unreadable)?;
            Ok(Fingerprint::from_bytes(bytes))
        }
        (None, input) => {
            let input = Json::from_text(input.unwrap_or_default());
            let input = input.map_err(super::columns::unreadable)?;
            Fingerprint::of(&kind, &input, None).map_err(super::columns::unreadable)
        }
    }
}
