//! The ends of attempts: told by their workers, or by their silence.

use std::collections::{HashMap, HashSet};

use super::blobs::NewBlobs;
use super::columns::{Columns, int, limit, small, to_json, without_nul};
use super::database::{Connection, Transaction};
use super::endpoints::Owed;
use super::error::{Tries, Trouble};
use super::held::HeldRow;
use super::params::Param;
use super::row::Row;
use super::usage::Metered;
use super::{Inner, sql, usage};
use crate::job::{Job, JobId, Json, Timestamp, Tokens};
use crate::store::{BlobRole, LeaseRef, SettleResult, Settlement, StoreError};

/// About how many bytes a settlement is.
pub(super) fn bytes_of(settlement: &Settlement) -> usize {
    match &settlement.outcome {
        crate::job::Outcome::Completed(result) => result.as_str().len() + 512,
        crate::job::Outcome::Failed { .. }
        | crate::job::Outcome::Cancelled
        | crate::job::Outcome::Released
        | crate::job::Outcome::Sleep { .. } => 1024,
    }
}

pub(super) type Key = (String, JobId);

pub(super) fn key(job: &Job) -> Key {
    (job.tenant.as_str().to_owned(), job.id)
}

impl Inner {
    /// Ends attempts, each on its own.
    pub(super) async fn settle_batch(
        &self,
        settlements: Vec<Settlement>,
    ) -> Vec<Result<SettleResult, StoreError>> {
        let mut answers: Vec<Option<Result<SettleResult, StoreError>>> = Vec::new();
        answers.resize_with(settlements.len(), || None);
        self.settle_known(&settlements, &mut answers).await;
        // A lease that is settled twice at once is settled twice in turn.
        while let Some(turn) = next_turn(&settlements, &answers) {
            let these: Vec<&Settlement> =
                turn.iter().filter_map(|place| settlements.get(*place)).collect();
            let mut tries = Tries::default();
            let settled = loop {
                match self.try_settle(&these).await {
                    Ok(settled) => break settled,
                    Err(trouble) => {
                        if let Err(error) = tries.again(trouble).await {
                            break these.iter().map(|_| Err(error.clone())).collect();
                        }
                    }
                }
            };
            for (place, answer) in turn.into_iter().zip(settled) {
                if let Some(slot) = answers.get_mut(place) {
                    *slot = Some(answer);
                }
            }
        }
        let put_back = |answer: &Option<Result<SettleResult, StoreError>>| matches!(answer, Some(Ok(settled)) if !settled.status.is_terminal());
        if answers.iter().any(put_back) {
            self.notify.line();
        }
        self.notify.jobs();
        answers.into_iter().map(|answer| answer.unwrap_or(Err(StoreError::LeaseLost))).collect()
    }

    /// The short way: attempts that were claimed here and changed by nobody since are ended in one
    /// statement. What cannot go this way is left without an answer.
    async fn settle_known(
        &self,
        settlements: &[Settlement],
        answers: &mut [Option<Result<SettleResult, StoreError>>],
    ) {
        let now = self.clock.now();
        let Ok(owed) = self.owed().await else { return };
        let mut endings = Endings { counted_here: true, owed, ..Endings::default() };
        let mut places: HashMap<Key, (usize, SettleResult)> = HashMap::new();
        let mut short = true;
        for (place, settlement) in settlements.iter().enumerate() {
            let Some(held) = self.held.take(&settlement.lease) else { continue };
            let HeldRow { mut row, history, events, counted, steps } = held;
            let stores = row.entry.job.has_payload || !settlement.artifacts.is_empty();
            if stores || settlement.tokens != Tokens::default() {
                // Something else is written for it too, in the same transaction.
                continue;
            }
            let Ok(result) = row.entry.settle(settlement, now) else { continue };
            if row.entry.ended && steps.sure().is_none() {
                // Somebody has to count them.
                continue;
            }
            let known = key(&row.entry.job);
            let settled = row.entry.settled();
            let steps = steps.sure().unwrap_or_default();
            let told = (history.as_deref(), events.as_deref());
            if endings.push(row, told, steps, result).is_ok() {
                places.insert(known, (place, settled));
                short &= settled.status.is_terminal() && !counted;
            }
        }
        if places.is_empty() {
            return;
        }
        // Whatever goes wrong here, the long way finds out what became of it.
        let mut owed = std::mem::take(&mut endings.owed);
        let ended = async {
            let mut connection = self.database.connection().await?;
            let sql = if short { sql::END_JOBS } else { sql::END_ATTEMPTS };
            if owed.is_empty() {
                return connection.query(sql, &endings.params(short)).await;
            }
            let (transaction, ended) =
                connection.begin((sql, &endings.params(short)), None).await?;
            let known: HashSet<Key> = ended.iter().map(ended_key).collect::<Result<_, _>>()?;
            owed.keep_only(|tenant, id| known.contains(&(tenant.to_string(), id)));
            owed.write(&transaction, now).await?;
            transaction.commit().await?;
            self.notify_outbox(&owed);
            Ok(ended)
        };
        let ended = ended.await.unwrap_or_default();
        if gave_back(&ended) {
            self.notify.line();
        }
        for row in ended {
            let Ok(known) = ended_key(&row) else { continue };
            if let Some((place, settled)) = places.get(&known)
                && let Some(answer) = answers.get_mut(*place)
            {
                *answer = Some(Ok(*settled));
            }
        }
    }

    /// The long way: locks, reads, decides, writes. No lease twice.
    async fn try_settle(
        &self,
        settlements: &[&Settlement],
    ) -> Result<Vec<Result<SettleResult, StoreError>>, Trouble> {
        let leases: Vec<&LeaseRef> = settlements.iter().map(|one| &one.lease).collect();
        let mut endings = Endings { owed: self.owed().await?, ..Endings::default() };
        let (transaction, mut rows) =
            Self::lock_held(self.database.connection().await?, &leases).await?;
        let histories = histories(&transaction, rows.values()).await?;
        let now = self.clock.now();
        let mut answers = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            let lease = &settlement.lease;
            let known = (lease.tenant.as_str().to_owned(), lease.job);
            answers.push(match rows.remove(&known) {
                None => Err(StoreError::LeaseLost),
                Some(mut row) if row.is_held_by(lease) => {
                    let result = row.entry.settle(settlement, now)?;
                    let settled = row.entry.settled();
                    if result.is_some() {
                        let role = BlobRole::Artifact;
                        let each = settlement.artifacts.iter().map(|artifact| (role, artifact));
                        endings.blobs.push_all(&lease.tenant, lease.job, each);
                    }
                    endings.push(row, histories.of(&known), histories.steps(&known), result)?;
                    Ok(settled)
                }
                Some(row) => row.entry.settled_before(settlement),
            });
        }
        if endings.write(transaction, now, self).await? {
            self.notify.line();
        }
        Ok(answers)
    }

    /// Begins a transaction in which these leases are locked, and reads their jobs.
    pub(super) async fn lock_held(
        connection: Connection,
        leases: &[&LeaseRef],
    ) -> Result<(Transaction, HashMap<Key, Row>), Trouble> {
        let tenants: Vec<&str> = leases.iter().map(|lease| lease.tenant.as_str()).collect();
        let ids: Vec<String> = leases.iter().map(|lease| lease.job.to_string()).collect();
        let epochs: Vec<i64> = leases.iter().map(|lease| int(lease.epoch)).collect();
        let (transaction, rows) = connection
            .begin(
                (sql::LOCK_LEASES, &[&tenants, &ids, &epochs]),
                Some((sql::ENTRIES, &[&tenants, &ids])),
            )
            .await?;
        let mut read = HashMap::with_capacity(rows.len());
        for row in &rows {
            let row = Row::from(row)?;
            read.insert(key(&row.entry.job), row);
        }
        Ok((transaction, read))
    }

    /// Ends the attempts of jobs whose leases ran out.
    pub(super) async fn try_rescue(&self, count: usize) -> Result<Vec<Job>, Trouble> {
        let now = self.clock.now();
        let mut endings = Endings { owed: self.owed().await?, ..Endings::default() };
        let connection = self.database.connection().await?;
        let (transaction, lost) = connection
            .begin((sql::LOCK_LOST_LEASES, &[&now.as_millis(), &limit(count)]), None)
            .await?;
        if lost.is_empty() {
            transaction.roll_back().await?;
            return Ok(Vec::new());
        }
        let mut tenants = Vec::with_capacity(lost.len());
        let mut ids = Vec::with_capacity(lost.len());
        for row in &lost {
            let mut columns = Columns::of(row);
            tenants.push(columns.get::<String>()?);
            ids.push(columns.get::<String>()?);
        }
        let mut rows = Vec::with_capacity(lost.len());
        for row in transaction.query(sql::ENTRIES, &[&tenants, &ids]).await? {
            match Row::from(&row) {
                Ok(row) => rows.push(row),
                Err(trouble) => set_aside(&transaction, &row, &trouble).await?,
            }
        }
        let histories = histories(&transaction, rows.iter()).await?;
        let mut ended = Vec::with_capacity(rows.len());
        for mut row in rows {
            row.entry.lose(now)?;
            ended.push(row.entry.job.clone());
            let known = key(&row.entry.job);
            endings.push(row, histories.of(&known), histories.steps(&known), None)?;
        }
        endings.write(transaction, now, self).await?;
        self.notify.line();
        self.notify.jobs();
        Ok(ended)
    }
}

/// Whose attempt it was that `end_attempts` ended.
fn ended_key(row: &tokio_postgres::Row) -> Result<Key, Trouble> {
    let mut columns = Columns::of(row);
    Ok((columns.get()?, columns.id()?))
}

/// Whether a limit counted any of the attempts that `end_attempts` ended.
fn gave_back(ended: &[tokio_postgres::Row]) -> bool {
    ended.iter().any(|row| row.try_get(2).unwrap_or(false))
}

/// Keeps a job that cannot be read from being met again and again.
async fn set_aside(
    transaction: &Transaction,
    row: &tokio_postgres::Row,
    trouble: &Trouble,
) -> Result<(), Trouble> {
    let (tenant, id): (String, String) = (row.get(0), row.get(1));
    tracing::error!(
        ?trouble,
        job.id = id,
        tenant.id = tenant,
        "a job that cannot be read is set aside"
    );
    transaction.query(sql::SET_ASIDE, &[&&*tenant, &&*id]).await?;
    Ok(())
}

/// The settlements that have no answer yet, the first of each lease.
fn next_turn(
    settlements: &[Settlement],
    answers: &[Option<Result<SettleResult, StoreError>>],
) -> Option<Vec<usize>> {
    let mut seen = HashSet::new();
    let open =
        settlements.iter().zip(answers).enumerate().filter(|(_, (_, answer))| answer.is_none());
    let turn: Vec<usize> = open
        .filter(|(_, (settlement, _))| {
            seen.insert((&settlement.lease.tenant, settlement.lease.job))
        })
        .map(|(place, _)| place)
        .collect();
    (!turn.is_empty()).then_some(turn)
}

/// What is stored of what happened to some jobs.
pub(super) struct Histories(HashMap<Key, History>);

#[derive(Default)]
struct History {
    until_lease: Option<String>,
    since: Option<String>,
    steps: u64,
}

impl Histories {
    /// Until the lease, and since.
    pub(super) fn of(&self, key: &Key) -> (Option<&str>, Option<&str>) {
        let known = self.0.get(key);
        let until_lease = known.and_then(|history| history.until_lease.as_deref());
        (until_lease, known.and_then(|history| history.since.as_deref()))
    }

    /// How many finished steps there are.
    pub(super) fn steps(&self, key: &Key) -> u64 {
        self.0.get(key).map_or(0, |history| history.steps)
    }
}

pub(super) async fn histories(
    transaction: &Transaction,
    rows: impl Iterator<Item = &Row>,
) -> Result<Histories, Trouble> {
    let (tenants, ids): (Vec<String>, Vec<String>) = rows
        .map(|row| (row.entry.job.tenant.as_str().to_owned(), row.entry.job.id.to_string()))
        .unzip();
    let mut read = HashMap::with_capacity(ids.len());
    for row in transaction.query(sql::HISTORIES, &[&tenants, &ids]).await? {
        let mut columns = Columns::of(&row);
        let key = (columns.get()?, columns.id()?);
        let (until_lease, since) = (columns.get()?, columns.get()?);
        read.insert(key, History { until_lease, since, steps: columns.count()? });
    }
    Ok(Histories(read))
}

/// What the ends of attempts write, by column.
#[derive(Default)]
pub(super) struct Endings {
    tenants: Vec<String>,
    ids: Vec<String>,
    held_epochs: Vec<i64>,
    held_versions: Vec<i64>,
    epochs: Vec<i64>,
    versions: Vec<i64>,
    statuses: Vec<&'static str>,
    attempts: Vec<i32>,
    run_ats: Vec<i64>,
    started_ats: Vec<Option<i64>>,
    completed_ats: Vec<Option<i64>>,
    expires_ats: Vec<Option<i64>>,
    cancel_requested_ats: Vec<Option<i64>>,
    charges: Vec<bool>,
    progress: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    code_versions: Vec<Option<String>>,
    results: Vec<Option<String>>,
    histories: Vec<String>,
    metered: Metered,
    /// What was used of language models.
    tokens: Vec<serde_json::Value>,
    run_ms: Vec<i64>,
    artifacts: Vec<Option<String>>,
    /// Whether the steps of all of them were counted here and not in the database.
    counted_here: bool,
    /// What is owed for them.
    owed: Owed,
    /// What they stored.
    blobs: NewBlobs,
    /// Whose payloads have to go.
    payloads: (Vec<String>, Vec<String>),
}

impl Endings {
    /// Adds an attempt that ended in memory, with what is stored of its history and how many finished steps
    /// its job has.
    pub(super) fn push(
        &mut self,
        mut row: Row,
        (history, events): (Option<&str>, Option<&str>),
        steps: u64,
        result: Option<Json>,
    ) -> Result<(), Trouble> {
        let at = |instant: Option<Timestamp>| instant.map(Timestamp::as_millis);
        // All that can fail comes first: columns must stay of one length.
        let lines = row.full_history(history, events)?;
        let used = row.entry.meter(steps);
        let job = &row.entry.job;
        let progress = job.progress.as_ref().map(to_json).transpose()?;
        let error = job.error.as_ref().map(to_json).transpose()?;
        let artifacts = (!job.artifacts.is_empty()).then(|| to_json(&job.artifacts)).transpose()?;
        self.owed.add(&row.entry, result.as_ref());
        if row.entry.dooms_payload() {
            self.payloads.0.push(job.tenant.as_str().to_owned());
            self.payloads.1.push(job.id.to_string());
        }
        let tokens = used.unwrap_or_default().tokens;
        if tokens != Tokens::default() {
            self.tokens.push(usage::tokens(job, row.entry.tally.key.as_deref(), tokens));
        }
        self.metered.push(used);
        self.run_ms.push(int(row.entry.tally.run_ms));
        self.artifacts.push(artifacts);
        self.histories.push(lines);
        self.progress.push(progress);
        self.errors.push(error);
        self.tenants.push(job.tenant.as_str().to_owned());
        self.ids.push(job.id.to_string());
        self.held_versions.push(int(row.read_as.0));
        self.held_epochs.push(int(row.read_as.1));
        self.epochs.push(int(row.entry.epoch));
        self.versions.push(int(job.version));
        self.statuses.push(job.status.as_str());
        self.attempts.push(small(job.attempt));
        self.run_ats.push(job.run_at.as_millis());
        self.started_ats.push(at(job.started_at));
        self.completed_ats.push(at(job.completed_at));
        self.expires_ats.push(at(job.expires_at));
        self.cancel_requested_ats.push(at(job.cancel_requested_at));
        self.charges.push(row.entry.charge);
        let version = job.code_version.as_deref();
        self.code_versions.push(version.map(|version| without_nul(version).into_owned()));
        self.results.push(result.map(|result| result.as_str().to_owned()));
        Ok(())
    }

    /// For `end_jobs`, or for `end_attempts`, which knows of more.
    fn params(&self, short: bool) -> Vec<&dyn Param> {
        let mut params: Vec<&dyn Param> = vec![
            &self.tenants,
            &self.ids,
            &self.held_epochs,
            &self.held_versions,
            &self.epochs,
            &self.versions,
            &self.statuses,
            &self.attempts,
            &self.run_ats,
            &self.started_ats,
            &self.completed_ats,
            &self.expires_ats,
            &self.cancel_requested_ats,
            &self.charges,
            &self.progress,
            &self.errors,
            &self.code_versions,
            &self.results,
            &self.histories,
            &self.metered.firsts,
            &self.metered.run_ms,
            &self.metered.steps,
        ];
        if !short {
            params.extend([&self.run_ms as &dyn Param, &self.artifacts, &self.counted_here]);
        }
        params
    }

    /// Writes all of them and commits. In a transaction that holds their locks, all are there. Whether
    /// that made room where there is a limit.
    async fn write(
        self,
        transaction: Transaction,
        now: Timestamp,
        inner: &Inner,
    ) -> Result<bool, Trouble> {
        if self.ids.is_empty() {
            return transaction.commit().await.map(|()| false);
        }
        let ended = transaction.query(sql::END_ATTEMPTS, &self.params(false)).await?;
        if ended.len() != self.ids.len() {
            transaction.roll_back().await?;
            return Err(Trouble::Overtaken);
        }
        self.blobs.write(&transaction, now).await?;
        let (tenants, ids) = &self.payloads;
        if !ids.is_empty() {
            let params: [&dyn Param; 3] = [tenants, ids, &now.as_millis()];
            transaction.query(sql::DOOM_PAYLOADS, &params).await?;
        }
        if !self.tokens.is_empty() {
            transaction.query(sql::ADD_USAGE, &[&to_json(&self.tokens)?]).await?;
        }
        self.owed.write(&transaction, now).await?;
        transaction.commit().await?;
        inner.notify_outbox(&self.owed);
        Ok(gave_back(&ended))
    }
}
