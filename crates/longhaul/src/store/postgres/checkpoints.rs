//! Checkpoints: the stored outputs of steps.

use std::collections::{HashMap, HashSet};

use super::batch::columns;
use super::connection::columns::{Columns, int, small, unreadable};
use super::connection::database::Connection;
use super::connection::error::PgError;
use super::{Inner, sql};
use crate::job::{JobId, TenantId, Timestamp};
use crate::store::columns::ReadColumns;
use crate::store::{Checkpoint, CheckpointResult, LeaseRef, StoreError};

/// Returns the approximate size of a checkpoint.
pub(super) fn bytes_of(step: &Checkpoint) -> usize {
    step.output.as_str().len() + 256
}

columns! {
    /// A checkpoint, in the order of the parameters of `insert_steps.sql`.
    struct StepRow<'a> => StepBatch {
        tenant: &'a TenantId,
        id: JobId,
        epoch: i64,
        name: &'a str,
        position: i32,
        output: &'a str,
        alone: bool,
        started_at: Timestamp,
    }
}

impl Inner {
    /// Stores checkpoints. Each succeeds or fails on its own.
    pub(super) async fn checkpoint_batch(
        &self,
        steps: Vec<Checkpoint>,
    ) -> Vec<Result<CheckpointResult, StoreError>> {
        let stored = retrying!(self.checkpoint_split(&steps));
        stored.unwrap_or_else(|error| vec![Err(error); steps.len()])
    }

    /// Stores checkpoints, and those of jobs with shared leases once these are split.
    async fn checkpoint_split(
        &self,
        steps: &[Checkpoint],
    ) -> Result<Vec<Result<CheckpointResult, StoreError>>, PgError> {
        let mut results = self.try_checkpoint(steps).await?;
        let lost =
            steps.iter().zip(&results).filter(|(_, result)| **result == Err(StoreError::LeaseLost));
        if self.split_leases(lost.map(|(step, _)| &step.lease)).await? {
            // A step that was stored just now is found again, with the same output.
            results = self.try_checkpoint(steps).await?;
        }
        Ok(results)
    }

    /// Stores checkpoints and keeps the lease cache's step counts exact, so that settling needs no count.
    async fn try_checkpoint(
        &self,
        steps: &[Checkpoint],
    ) -> Result<Vec<Result<CheckpointResult, StoreError>>, PgError> {
        let mut all_cached = true;
        for step in steps {
            all_cached &= self.lease_cache.begin_step(&step.lease);
        }
        let sql = if all_cached { sql::INSERT_STEPS } else { sql::INSERT_FOREIGN_STEPS };
        let mut is_new = vec![None; steps.len()];
        let results = self.store_steps(sql, steps, &mut is_new).await;
        for (step, is_new) in steps.iter().zip(is_new) {
            self.lease_cache.end_step(&step.lease, is_new);
        }
        results
    }

    /// Inserts steps, and records in `is_new` which of them did not exist before.
    async fn store_steps(
        &self,
        sql: &'static str,
        steps: &[Checkpoint],
        is_new: &mut [Option<bool>],
    ) -> Result<Vec<Result<CheckpointResult, StoreError>>, PgError> {
        // Sorted by job, as all statements lock leases in this order, and by name, which may occur twice.
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by_key(|index| {
            steps.get(*index).map(|step| (&step.lease.tenant, step.lease.job, &step.name))
        });
        let mut batch = StepBatch::default();
        for step in order.iter().filter_map(|index| steps.get(*index)) {
            batch.push(StepRow {
                tenant: &step.lease.tenant,
                id: step.lease.job,
                epoch: int(step.lease.epoch),
                name: &step.name,
                position: small(step.position),
                output: step.output.as_str(),
                alone: step.alone,
                started_at: step.started_at,
            });
        }
        let now = self.clock.now();
        let mut params = batch.params();
        params.push(&now);
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql, &params).await?;
        // A row is either the number of a step whose lease is valid, or the key of an inserted step.
        let mut held: Vec<Option<CheckpointResult>> = vec![None; steps.len()];
        let mut inserted: HashSet<StepKey> = HashSet::new();
        for row in &rows {
            let mut columns = Columns::of(row);
            let (number, cancel_requested): (Option<i64>, bool) = columns.get()?;
            let Some(number) = number else {
                inserted.insert(columns.get()?);
                continue;
            };
            let index = usize::try_from(number - 1).map_err(unreadable)?;
            if let Some(held) = order.get(index).and_then(|index| held.get_mut(*index)) {
                *held = Some(CheckpointResult { cancel_requested });
            }
        }
        // Of two steps with one name, one is inserted and the other is compared with it.
        let mut existing = Vec::new();
        for index in order {
            if let (Some(step), Some(held), Some(is_new)) =
                (steps.get(index), held.get(index), is_new.get_mut(index))
            {
                *is_new = Some(held.is_some() && inserted.remove(&step_key(step)));
                if held.is_some() && *is_new == Some(false) {
                    existing.push(step);
                }
            }
        }
        let stored = StoredOutputs::read(&mut connection, &existing).await?;
        let result = |(step, (held, is_new)): (&Checkpoint, (Option<_>, &Option<bool>))| {
            let held = held.ok_or(StoreError::LeaseLost)?;
            if *is_new == Some(false) {
                stored.compare(step)?;
            }
            Ok(held)
        };
        Ok(steps.iter().zip(held.into_iter().zip(&*is_new)).map(result).collect())
    }
}

/// Tenant, job and name of a step.
type StepKey = (TenantId, JobId, String);

fn step_key(step: &Checkpoint) -> StepKey {
    let LeaseRef { tenant, job, .. } = &step.lease;
    (tenant.clone(), *job, step.name.clone())
}

struct StoredOutputs(HashMap<StepKey, String>);

impl StoredOutputs {
    /// Reads the stored outputs of these steps. Without a query if there are none.
    async fn read(connection: &mut Connection, steps: &[&Checkpoint]) -> Result<Self, PgError> {
        if steps.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let keys = steps.iter().map(|step| (&step.lease.tenant, step.lease.job, &*step.name));
        let (tenants, ids, names): (Vec<&TenantId>, Vec<JobId>, Vec<&str>) = keys.collect();
        let outputs = connection.all(sql::STORED_STEPS, &[&tenants, &ids, &names]).await?;
        Ok(Self(outputs.into_iter().collect()))
    }

    /// Accepts a step that was stored before with the same output.
    fn compare(&self, step: &Checkpoint) -> Result<(), StoreError> {
        if self.0.get(&step_key(step)).is_some_and(|output| output == step.output.as_str()) {
            return Ok(());
        }
        Err(StoreError::StepConflict { name: step.name.clone() })
    }
}
