//! Jobs in transfer from one store to another.

use sha2::{Digest, Sha256};

use super::stored_job::StoredJob;
use super::{Blob, LeaseRef, Settlement, StoreError};
use crate::job::{
    Event, Fingerprint, JobId, Json, Outcome, Status, Step, TenantId, UsageRow, hour_of,
};

/// A job with its input, result, history, steps and blobs.
#[derive(Debug, Clone)]
pub(crate) struct ExportedJob {
    pub(super) entry: StoredJob,
    /// `None` if the job was submitted by SQL.
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) input: Json,
    pub(super) result: Option<Json>,
    /// One JSON event per line, oldest first.
    pub(super) history: String,
    /// By position.
    pub(super) steps: Vec<Step>,
    /// In the order of storage.
    pub(super) blobs: Vec<Blob>,
    /// Usage, if the job finished during the transfer.
    pub(super) used: Option<UsageRow>,
}

impl ExportedJob {
    /// Releases the attempt of a running job, because its source was stopped before the copy. The attempt is not
    /// charged, because neither the job nor its worker failed.
    ///
    /// The release has the time of the last event, so that a repeated copy produces the same job.
    pub(super) fn released(mut self) -> Result<Self, StoreError> {
        let job = &self.entry.job;
        if job.status != Status::Running {
            return Ok(self);
        }
        let last = self.history.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let at = last.map_or(job.run_at, |event: Event| event.at);
        let lease = LeaseRef { tenant: job.tenant.clone(), job: job.id, epoch: self.entry.epoch };
        self.entry.settle(&Settlement::of(lease, Outcome::Released), at)?;
        // A job with a cancellation request finishes here.
        self.used = self.entry.meter(self.steps.len() as u64).map(|usage| UsageRow {
            hour: hour_of(at),
            kind: self.entry.job.kind.clone(),
            key: self.entry.tally.key.clone(),
            usage,
        });
        for event in std::mem::take(&mut self.entry.events) {
            let line = serde_json::to_string(&event);
            self.history.push('\n');
            self.history.push_str(&line.map_err(|error| StoreError::Broken(error.to_string()))?);
        }
        self.entry.written();
        Ok(self)
    }

    /// Returns tenant and id.
    pub(crate) fn key(&self) -> (TenantId, JobId) {
        (self.entry.job.tenant.clone(), self.entry.job.id)
    }

    /// Returns the number of finished steps.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = [Some(&self.input), self.result.as_ref()].into_iter().flatten();
        let texts = texts.chain(self.steps.iter().map(|step| &step.output));
        512 * (1 + self.steps.len())
            + self.history.len()
            + texts.map(|json| json.as_str().len()).sum::<usize>()
    }

    /// Returns a digest of all parts. Compare it within one process only, because it may differ between versions.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        // The length prefix separates the parts unambiguously.
        let mut add = |part: &str| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(&format!("{:?} {:?}", self.entry, self.fingerprint));
        add(self.input.as_str());
        add(self.result.as_ref().map_or("", Json::as_str));
        add(&self.history);
        for step in &self.steps {
            let Step { name, position, output, alone, attempt, started_at, completed_at } = step;
            add(name);
            add(&format!("{position} {alone} {attempt} {started_at:?} {completed_at:?}"));
            add(output.as_str());
        }
        add(&format!("{:?}", self.blobs));
        hash.finalize().into()
    }
}

/// Encodes bytes as lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The id of a deleted job.
#[derive(Debug, Clone)]
pub(crate) struct Tombstone {
    pub(crate) tenant: String,
    pub(crate) id: String,
    pub(crate) gone_at: i64,
}
