//! What workers write. Every write finds its job by the lease's epoch, or not at all.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::Client;

use super::columns::{Columns, int, small, to_json, without_nul};
use super::database::query_unprepared;
use super::endpoints::Owed;
use super::error::{Tries, Trouble, to_store_error};
use super::held::{HeldRow, Steps};
use super::row::append;
use super::settle::histories;
use super::{Inner, sql};
use crate::job::{JobId, Timestamp};
use crate::store::{Checkpoint, LeaseRef, Renewal, Report, StoreError};

/// How long a renewal may take before its connection is given up: the next one is due soon.
const RENEWAL_PATIENCE: Duration = Duration::from_secs(4);

/// About how many bytes a checkpoint is.
pub(super) fn bytes_of(step: &Checkpoint) -> usize {
    step.output.as_str().len() + 256
}

impl Inner {
    /// Extends leases, over a connection that nothing else uses: however busy the others are, no lease
    /// is lost for want of one. Whoever calls drives it, so that it lives on the caller's thread.
    pub(super) async fn renew(
        &self,
        leases: &[LeaseRef],
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        let renewal = self.try_renew(leases, duration);
        let renewed = tokio::time::timeout(RENEWAL_PATIENCE, renewal).await;
        let renewed = renewed.unwrap_or(Err(Trouble::TimedOut));
        if renewed.is_err() {
            *self.heartbeat.lock().await = None;
        }
        renewed.map_err(to_store_error)
    }

    async fn try_renew(
        &self,
        leases: &[LeaseRef],
        duration: Duration,
    ) -> Result<Vec<Renewal>, Trouble> {
        let mut heartbeat = self.heartbeat.lock().await;
        let client = self.heartbeat(&mut heartbeat).await?;
        let tenants: Vec<&str> = leases.iter().map(|lease| lease.tenant.as_str()).collect();
        let ids: Vec<String> = leases.iter().map(|lease| lease.job.to_string()).collect();
        let epochs: Vec<i64> = leases.iter().map(|lease| int(lease.epoch)).collect();
        let until = self.clock.now().after(duration).as_millis();
        let rows = query_unprepared(client, sql::RENEW, &[&tenants, &ids, &epochs, &until]).await?;
        let mut kept = HashMap::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::of(row);
            let key: (String, String, i64) = (columns.get()?, columns.get()?, columns.get()?);
            kept.insert(key, columns.get::<bool>()?);
        }
        let answer = |lease: &LeaseRef| {
            let key = (lease.tenant.as_str().to_owned(), lease.job.to_string(), int(lease.epoch));
            match kept.get(&key) {
                Some(asked) => Renewal::Kept { cancel_requested: *asked },
                None => Renewal::Lost,
            }
        };
        Ok(leases.iter().map(answer).collect())
    }

    /// The connection for signs of life; made anew if it was lost.
    pub(super) async fn heartbeat<'a>(
        &self,
        heartbeat: &'a mut Option<Client>,
    ) -> Result<&'a Client, Trouble> {
        if heartbeat.as_ref().is_some_and(Client::is_closed) {
            *heartbeat = None;
        }
        Ok(match heartbeat {
            Some(client) => client,
            none => none.insert(self.database.own_connection().await?),
        })
    }

    /// Records what running jobs tell of themselves.
    pub(super) async fn report(&self, reports: &[Report]) -> Vec<Result<(), StoreError>> {
        let mut answers = Vec::with_capacity(reports.len());
        // Two reports of one lease are written one after the other.
        let mut rest = reports;
        while !rest.is_empty() {
            let mut seen = HashSet::new();
            let same =
                |report: &Report| !seen.insert((report.lease.tenant.clone(), report.lease.job));
            let turn = rest.iter().position(same).unwrap_or(rest.len());
            let (these, others) = rest.split_at(turn);
            let mut tries = Tries::default();
            let mut attempted = HashMap::new();
            answers.extend(loop {
                match self.try_report(these, &mut attempted).await {
                    Ok(answers) => break answers,
                    Err(trouble) => {
                        if let Err(error) = tries.again(trouble).await {
                            break these.iter().map(|_| Err(error.clone())).collect();
                        }
                    }
                }
            });
            rest = others;
        }
        self.notify.jobs();
        answers
    }

    /// `attempted` are the events that an earlier try meant to write and whose answer was lost.
    async fn try_report(
        &self,
        reports: &[Report],
        attempted: &mut HashMap<(String, JobId), String>,
    ) -> Result<Vec<Result<(), StoreError>>, Trouble> {
        let leases: Vec<&LeaseRef> = reports.iter().map(|report| &report.lease).collect();
        let mut told = Told::by(self.owed().await?);
        let (transaction, mut rows) =
            Self::lock_held(self.database.connection().await?, &leases).await?;
        let histories = histories(&transaction, rows.values()).await?;
        let now = self.clock.now();
        let mut held = Vec::new();
        let mut answers = Vec::with_capacity(reports.len());
        for report in reports {
            let known = (report.lease.tenant.as_str().to_owned(), report.lease.job);
            let row = rows.remove(&known).filter(|row| row.is_held_by(&report.lease));
            let Some(mut row) = row else {
                answers.push(Err(StoreError::LeaseLost));
                continue;
            };
            let (history, events) = histories.of(&known);
            let is_told =
                |attempted: &String| events.is_some_and(|events| events.starts_with(attempted));
            if attempted.get(&known).is_some_and(is_told) {
                answers.push(Ok(()));
                continue;
            }
            row.entry.tell(&report.phases, report.progress.as_ref(), now);
            let events = append(events, &row.entry.events)?;
            if !row.entry.events.is_empty() {
                attempted.insert(known, events.clone());
            }
            told.push(&row, events.clone())?;
            row.entry.written();
            row.read_as.0 = row.entry.job.version;
            held.push(HeldRow {
                row,
                history: history.map(ToOwned::to_owned),
                events: (!events.is_empty()).then_some(events),
                // Nobody has looked.
                counted: true,
                steps: Steps::default(),
            });
            answers.push(Ok(()));
        }
        told.write(transaction, self).await?;
        for row in held {
            self.held.replace(row);
        }
        Ok(answers)
    }

    /// Stores steps' outputs, each on its own.
    pub(super) async fn checkpoint_batch(
        &self,
        steps: Vec<Checkpoint>,
    ) -> Vec<Result<(), StoreError>> {
        let mut tries = Tries::default();
        loop {
            match self.try_checkpoint(&steps).await {
                Ok(answers) => return answers,
                Err(trouble) => {
                    if let Err(error) = tries.again(trouble).await {
                        return steps.iter().map(|_| Err(error.clone())).collect();
                    }
                }
            }
        }
    }

    /// Counts what it stores where the lease is held here, so that its end needs no look.
    async fn try_checkpoint(
        &self,
        steps: &[Checkpoint],
    ) -> Result<Vec<Result<(), StoreError>>, Trouble> {
        let mut all_held = true;
        for step in steps {
            all_held &= self.held.storing(&step.lease);
        }
        let sql = if all_held { sql::INSERT_STEPS } else { sql::INSERT_FOREIGN_STEPS };
        let mut new = vec![None; steps.len()];
        let answers = self.store_steps(sql, steps, &mut new).await;
        for (step, new) in steps.iter().zip(new) {
            self.held.stored(&step.lease, new);
        }
        answers
    }

    /// Tells in `new` which of the steps were not there before, as soon as that is known.
    async fn store_steps(
        &self,
        sql: &'static str,
        steps: &[Checkpoint],
        new: &mut [Option<bool>],
    ) -> Result<Vec<Result<(), StoreError>>, Trouble> {
        // In the order of ids, as everything that locks leases; and names, which may be taken twice.
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by_key(|place| {
            steps.get(*place).map(|step| (&step.lease.tenant, step.lease.job, &step.name))
        });
        let sorted: Vec<&Checkpoint> = order.iter().filter_map(|place| steps.get(*place)).collect();
        let now = self.clock.now().as_millis();
        let mut connection = self.database.connection().await?;
        let rows = connection
            .query(
                sql,
                &[
                    &each(&sorted, |step| step.lease.tenant.as_str().to_owned()),
                    &each(&sorted, |step| step.lease.job.to_string()),
                    &each(&sorted, |step| int(step.lease.epoch)),
                    &each(&sorted, |step| step.name.clone()),
                    &each(&sorted, |step| small(step.position)),
                    &each(&sorted, |step| step.output.as_str().to_owned()),
                    &each(&sorted, |step| step.alone),
                    &each(&sorted, |step| step.started_at.as_millis()),
                    &now,
                ],
            )
            .await?;
        let mut answers: Vec<Option<Result<(), StoreError>>> =
            steps.iter().map(|_| Some(Err(StoreError::LeaseLost))).collect();
        let mut stored: HashSet<(String, String, String)> = HashSet::new();
        for row in &rows {
            let mut columns = Columns::of(row);
            if let Some(place) = columns.get::<Option<i64>>()? {
                let place = usize::try_from(place - 1).map_err(super::columns::unreadable)?;
                let held = order.get(place).and_then(|place| answers.get_mut(*place));
                if let Some(answer) = held {
                    *answer = None;
                }
            } else {
                stored.insert((columns.get()?, columns.get()?, columns.get()?));
            }
        }
        // Of two under one name in this batch one was stored, and the other is compared with it.
        let mut doubtful = Vec::new();
        for place in order {
            let (Some(step), Some(answer), Some(new)) =
                (steps.get(place), answers.get_mut(place), new.get_mut(place))
            else {
                continue;
            };
            *new = Some(answer.is_none() && stored.remove(&step_key(step)));
            if *new == Some(true) {
                *answer = Some(Ok(()));
            } else if answer.is_none() {
                doubtful.push(place);
            }
        }
        if !doubtful.is_empty() {
            let stored = self.stored(&mut connection, steps, &doubtful).await?;
            for place in doubtful {
                if let (Some(step), Some(answer)) = (steps.get(place), answers.get_mut(place)) {
                    *answer = Some(stored.compare(step));
                }
            }
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(StoreError::LeaseLost))).collect())
    }

    async fn stored(
        &self,
        connection: &mut super::database::Connection,
        steps: &[Checkpoint],
        places: &[usize],
    ) -> Result<Stored, Trouble> {
        let asked: Vec<&Checkpoint> = places.iter().filter_map(|place| steps.get(*place)).collect();
        let rows = connection
            .query(
                sql::STORED_STEPS,
                &[
                    &asked.iter().map(|step| step.lease.tenant.as_str()).collect::<Vec<_>>(),
                    &asked.iter().map(|step| step.lease.job.to_string()).collect::<Vec<_>>(),
                    &asked.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(),
                ],
            )
            .await?;
        let mut outputs = HashMap::new();
        for row in &rows {
            let mut columns = Columns::of(row);
            let key = (columns.get()?, columns.get()?, columns.get()?);
            outputs.insert(key, columns.get()?);
        }
        Ok(Stored(outputs))
    }
}

fn each<T>(steps: &[&Checkpoint], of: impl Fn(&Checkpoint) -> T) -> Vec<T> {
    steps.iter().map(|step| of(step)).collect()
}

fn step_key(step: &Checkpoint) -> (String, String, String) {
    let LeaseRef { tenant, job, .. } = &step.lease;
    (tenant.as_str().to_owned(), job.to_string(), step.name.clone())
}

/// Outputs by tenant, job and name.
struct Stored(HashMap<(String, String, String), String>);

impl Stored {
    fn compare(&self, step: &Checkpoint) -> Result<(), StoreError> {
        if self.0.get(&step_key(step)).is_some_and(|output| output == step.output.as_str()) {
            return Ok(());
        }
        Err(StoreError::StepConflict { name: step.name.clone() })
    }
}

/// What is written of running jobs, by column.
#[derive(Default)]
pub(super) struct Told {
    tenants: Vec<String>,
    ids: Vec<String>,
    epochs: Vec<i64>,
    read_versions: Vec<i64>,
    versions: Vec<i64>,
    phases: Vec<Option<String>>,
    progress: Vec<Option<String>>,
    events: Vec<Option<String>>,
    cancel_requested_ats: Vec<Option<i64>>,
    /// What is owed for it.
    owed: Owed,
}

impl Told {
    pub(super) fn by(owed: Owed) -> Self {
        Self { owed, ..Self::default() }
    }

    pub(super) fn push(&mut self, row: &super::row::Row, events: String) -> Result<(), Trouble> {
        let job = &row.entry.job;
        self.progress.push(job.progress.as_ref().map(to_json).transpose()?);
        self.owed.add(&row.entry, None);
        self.tenants.push(job.tenant.as_str().to_owned());
        self.ids.push(job.id.to_string());
        self.epochs.push(int(row.entry.epoch));
        self.read_versions.push(int(row.read_as.0));
        self.versions.push(int(job.version));
        self.phases.push(job.phase.as_deref().map(|phase| without_nul(phase).into_owned()));
        self.events.push((!events.is_empty()).then_some(events));
        self.cancel_requested_ats.push(job.cancel_requested_at.map(Timestamp::as_millis));
        Ok(())
    }

    /// Writes all of it and commits. In a transaction that holds their locks, all are there.
    pub(super) async fn write(
        self,
        transaction: super::database::Transaction,
        inner: &Inner,
    ) -> Result<(), Trouble> {
        if self.ids.is_empty() {
            return transaction.commit().await;
        }
        let written = transaction
            .query(
                sql::SAVE_LEASES,
                &[
                    &self.tenants,
                    &self.ids,
                    &self.epochs,
                    &self.read_versions,
                    &self.versions,
                    &self.phases,
                    &self.progress,
                    &self.events,
                    &self.cancel_requested_ats,
                ],
            )
            .await?;
        if written.len() != self.ids.len() {
            transaction.roll_back().await?;
            return Err(Trouble::Overtaken);
        }
        self.owed.write(&transaction, inner.clock.now()).await?;
        transaction.commit().await?;
        inner.notify_outbox(&self.owed);
        Ok(())
    }
}
