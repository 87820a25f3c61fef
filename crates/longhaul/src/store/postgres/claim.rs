//! Claiming: who is next, over all tenants and replicas.

use std::collections::HashMap;

use super::columns::{Columns, int, small, to_json, without_nul};
use super::database::Transaction;
use super::error::{Tries, Trouble};
use super::held::{HeldRow, Steps};
use super::look::{Look, Rotation};
use super::params::Param;
use super::pick::{Head, Picker};
use super::row::Row;
use super::{Inner, find, sql};
use crate::job::{Job, JobId, Json, Step, Timestamp};
use crate::store::limits::{LimitCheck, LimitKey};
use crate::store::{Claim, ClaimResult, Lease, QueueCapacity, StoreError};

/// A job that may be claimed, and what goes with it.
pub(super) struct Candidate {
    pub(super) row: Row,
    input: Json,
    history: Option<String>,
    /// Where its place in line is, as long as the transaction that found it lasts.
    place: Option<String>,
}

/// What a claim takes of what it locked.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) taken: Vec<Candidate>,
    /// How many others could have been taken.
    pub(super) left: usize,
}

impl Inner {
    pub(super) async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let claim: i64 = rand::random();
        let mut tries = Tries::default();
        let mut again = false;
        loop {
            let claimed = if again {
                self.try_claim_again(want, claim).await
            } else {
                self.try_claim(want, claim).await
            };
            match claimed {
                Ok(claimed) => return Ok(claimed),
                Err(trouble) => tries.again(trouble).await?,
            }
            again = true;
        }
    }

    /// The answer to the last try was lost: it may have taken something.
    async fn try_claim_again(&self, want: &Claim, claim: i64) -> Result<ClaimResult, Trouble> {
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::CLAIMED_BEFORE, &[&&*want.replica, &claim]).await?;
        if rows.is_empty() {
            drop(connection);
            return self.try_claim(want, claim).await;
        }
        let mut leases = Vec::with_capacity(rows.len());
        for row in &rows {
            let Candidate { row, input, .. } = candidate(row)?;
            let expires_at = row.entry.lease_until.unwrap_or_else(|| self.clock.now());
            leases.push(lease(row, input, expires_at));
        }
        drop(connection);
        self.with_steps(leases, None).await
    }

    async fn try_claim(&self, want: &Claim, claim: i64) -> Result<ClaimResult, Trouble> {
        let now = self.clock.now();
        let mut owed = self.owed().await?;
        let mut gate = LimitCheck::new(&want.limits, now);
        let (transaction, chosen) = if gate.is_open() {
            let (transaction, candidates) = self.heads(want, now).await?;
            (transaction, choose(candidates, &mut Picker::new(want), &mut gate))
        } else {
            self.choose_within_limits(want, now, &mut gate).await?
        };
        let mut taken = Taken::default();
        let mut leases = Vec::with_capacity(chosen.taken.len());
        for mut found in chosen.taken {
            let steps = (!found.row.entry.may_have_steps()).then_some(0);
            let expires_at = found.row.entry.claim(want, now)?;
            if !gate.is_open() {
                taken.counted.push(gate.pass(LimitKey::of(&found.row.entry.job)));
            }
            owed.add(&found.row.entry, None);
            let row = found.row.claimed(now);
            taken.push(&row, found.place)?;
            self.held.keep(HeldRow {
                row: row.clone(),
                history: found.history,
                events: None,
                counted: !gate.is_open(),
                steps: Steps::at_claim(steps),
            });
            leases.push(lease(row, found.input, expires_at));
        }
        let Some(last) = leases.last() else {
            let next = transaction.commit_with(sql::NEXT_DUE, &[&now.as_millis()]).await?;
            let next_due_at = next_due(&next)?.into_iter().chain(gate.next_at()).min();
            return Ok(ClaimResult { leases, next_due_at });
        };
        self.rotation(want).served(&last.job);
        let replica = without_nul(&want.replica);
        let until = now.after(want.lease).as_millis();
        let begun = now.as_millis();
        if !gate.is_open() {
            self.save_meters(&transaction, &gate).await?;
        }
        let params: &[&dyn Param] = &[
            &taken.tenants,
            &taken.queues,
            &taken.kinds,
            &taken.priorities,
            &taken.places,
            &taken.ids,
            &taken.epochs,
            &taken.versions,
            &taken.attempts,
            &taken.started_ats,
            &taken.code_versions,
            &taken.progress,
            &&*replica,
            &begun,
            &until,
            &claim,
            &taken.counted,
        ];
        let next = if !owed.is_empty() {
            transaction.query(sql::CLAIM_JOBS, params).await?;
            owed.write(&transaction, now).await?;
            let next = transaction.commit_with(sql::NEXT_DUE, &[&begun]).await?;
            self.notify_outbox(&owed);
            next_due(&next)?.into_iter().chain(gate.next_at()).min()
        } else if leases.len() < want.limit {
            let look: (&str, &[&dyn Param]) = (sql::NEXT_DUE, &[&begun]);
            let next = transaction.commit_with_both(look, (sql::CLAIM_JOBS, params)).await?;
            next_due(&next)?.into_iter().chain(gate.next_at()).min()
        } else {
            transaction.commit_with(sql::CLAIM_JOBS, params).await?;
            None
        };
        self.notify.jobs();
        if chosen.left > 0 {
            // They were locked for a moment, and whoever looked meanwhile has passed them over.
            self.notify.line();
        }
        self.with_steps(leases, next).await
    }

    /// The first due jobs of each lane, locked in the transaction that is returned.
    async fn heads(
        &self,
        want: &Claim,
        now: Timestamp,
    ) -> Result<(Transaction, Vec<Candidate>), Trouble> {
        let rotation = self.rotation(want);
        // More of a lane than it has room for is of no use.
        let each_max =
            want.limit.min(want.queue_capacity.as_ref().map_or(want.limit, QueueCapacity::most));
        let mut each = rotation.heads_of_each_lane(want.limit).min(each_max);
        let mut look = Look::new(want, rotation, now, each);
        let connection = self.database.connection().await?;
        let (transaction, mut rows) =
            connection.begin((sql::CLAIM_HEADS, &look.params()), None).await?;
        loop {
            let mut candidates = Vec::with_capacity(rows.len());
            let mut lanes: HashMap<(String, String, String, i32), usize> = HashMap::new();
            for row in &rows {
                match candidate(row) {
                    Ok(found) => {
                        let job = &found.row.entry.job;
                        let lane = (
                            job.tenant.as_str().to_owned(),
                            job.queue.as_str().to_owned(),
                            job.kind.as_str().to_owned(),
                            job.priority,
                        );
                        *lanes.entry(lane).or_default() += 1;
                        candidates.push(found);
                    }
                    Err(trouble) => set_aside(&transaction, row, &trouble).await?,
                }
            }
            rotation.set_lanes_seen(lanes.len());
            // Enough, or all that there is: otherwise lanes that were cut short may have more.
            let cut_short = lanes.values().any(|found| *found >= each);
            if each >= each_max || candidates.len() >= want.limit || !cut_short {
                return Ok((transaction, candidates));
            }
            each = each_max;
            look.set_each(each);
            rows = transaction.query(sql::CLAIM_HEADS, &look.params()).await?;
        }
    }

    /// Deliveries have a rotation of their own.
    pub(super) fn rotation(&self, want: &Claim) -> &Rotation {
        if want.queue_capacity.is_some() { &self.outboxes } else { &self.tenants }
    }

    /// Adds what earlier attempts finished.
    async fn with_steps(
        &self,
        mut leases: Vec<Lease>,
        next_due_at: Option<Timestamp>,
    ) -> Result<ClaimResult, Trouble> {
        let may_have_steps = |lease: &&Lease| lease.epoch > 1 || lease.job.forked_from.is_some();
        let (tenants, ids): (Vec<String>, Vec<String>) = leases
            .iter()
            .filter(may_have_steps)
            .map(|lease| (lease.job.tenant.as_str().to_owned(), lease.job.id.to_string()))
            .unzip();
        if !ids.is_empty() {
            let mut connection = self.database.connection().await?;
            let mut steps: HashMap<(String, JobId), Vec<Step>> = HashMap::new();
            for row in connection.query(sql::STEPS, &[&tenants, &ids]).await? {
                let (tenant, id, step) = find::step(&row)?;
                steps.entry((tenant, id)).or_default().push(step);
            }
            for lease in &mut leases {
                let key = (lease.job.tenant.as_str().to_owned(), lease.job.id);
                lease.steps = steps.remove(&key).unwrap_or_default();
            }
            for lease in leases.iter().filter(may_have_steps) {
                self.held.begin_with(lease);
            }
        }
        Ok(ClaimResult { leases, next_due_at })
    }
}

/// Takes a job out of line that cannot be read: it would be met again and again, and a claim that has room
/// for one would never see what is behind it.
pub(super) async fn set_aside(
    transaction: &Transaction,
    row: &tokio_postgres::Row,
    trouble: &Trouble,
) -> Result<(), Trouble> {
    let text = |column: &str| row.try_get::<_, String>(column).unwrap_or_default();
    let (tenant, id) = (text("tenant_id"), text("id"));
    tracing::error!(
        ?trouble,
        job.id = id,
        tenant.id = tenant,
        "a job that cannot be read is set aside"
    );
    let priority: i32 = row.try_get("priority")?;
    let run_at: i64 = row.try_get("run_at")?;
    let (queue, kind) = (text("queue"), text("kind"));
    let place: &[&dyn Param] = &[&tenant, &queue, &kind, &priority, &run_at, &id];
    transaction.query(sql::LEAVE_LINE, place).await?;
    Ok(())
}

/// Those of the candidates that are taken, in the order in which they are.
pub(super) fn choose(
    candidates: Vec<Candidate>,
    picker: &mut Picker<'_>,
    gate: &mut LimitCheck<'_>,
) -> Chosen {
    let heads: Vec<Head> = candidates.iter().map(|found| head(&found.row.entry.job)).collect();
    let places = picker.pick(&heads, gate);
    let mut all: Vec<Option<Candidate>> = candidates.into_iter().map(Some).collect();
    let taken = places.into_iter().filter_map(|place| all.get_mut(place).and_then(Option::take));
    let taken = taken.collect();
    let left =
        all.iter().flatten().filter(|one| gate.admits(LimitKey::of(&one.row.entry.job))).count();
    Chosen { taken, left }
}

pub(super) fn candidate(row: &tokio_postgres::Row) -> Result<Candidate, Trouble> {
    let mut columns = Columns::of(row);
    let row = Row::read(&mut columns)?;
    let history = columns.get()?;
    // A job in line has no events since its claim, and no result.
    let (_, _): (Option<&str>, Option<&str>) = (columns.get()?, columns.get()?);
    let input = columns.json()?;
    Ok(Candidate { row, input, history, place: columns.go_to("place")?.get()? })
}

fn head(job: &Job) -> Head {
    Head {
        tenant: job.tenant.clone(),
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        priority: job.priority,
        run_at: job.run_at,
        id: job.id,
    }
}

fn lease(row: Row, input: Json, expires_at: Timestamp) -> Lease {
    Lease { epoch: row.entry.epoch, expires_at, input, steps: Vec::new(), job: row.entry.job }
}

fn next_due(rows: &[tokio_postgres::Row]) -> Result<Option<Timestamp>, Trouble> {
    rows.first().map_or(Ok(None), |row| Columns::of(row).opt_at())
}

/// What a claim writes, by column.
#[derive(Default)]
struct Taken {
    tenants: Vec<String>,
    queues: Vec<String>,
    kinds: Vec<String>,
    priorities: Vec<i32>,
    places: Vec<Option<String>>,
    ids: Vec<String>,
    epochs: Vec<i64>,
    versions: Vec<i64>,
    attempts: Vec<i32>,
    started_ats: Vec<i64>,
    code_versions: Vec<Option<String>>,
    progress: Vec<Option<String>>,
    /// Empty where nothing is limited.
    counted: Vec<Option<String>>,
}

impl Taken {
    fn push(&mut self, row: &Row, place: Option<String>) -> Result<(), Trouble> {
        let (entry, job) = (&row.entry, &row.entry.job);
        self.tenants.push(job.tenant.as_str().to_owned());
        self.queues.push(job.queue.as_str().to_owned());
        self.kinds.push(job.kind.as_str().to_owned());
        self.priorities.push(job.priority);
        self.places.push(place);
        self.ids.push(job.id.to_string());
        self.epochs.push(int(entry.epoch));
        self.versions.push(int(job.version));
        self.attempts.push(small(job.attempt));
        self.started_ats.push(job.started_at.unwrap_or(job.created_at).as_millis());
        let version = job.code_version.as_deref();
        self.code_versions.push(version.map(|version| without_nul(version).into_owned()));
        self.progress.push(job.progress.as_ref().map(to_json).transpose()?);
        Ok(())
    }
}
