//! A job on its way from one store to another.

use sha2::{Digest, Sha256};

use super::stored_job::StoredJob;
use super::{Blob, LeaseRef, Settlement, StoreError};
use crate::job::{
    Event, Fingerprint, JobId, Json, Outcome, Status, Step, TenantId, UsageRow, hour_of,
};

/// A job with all that belongs to it.
#[derive(Debug, Clone)]
pub(crate) struct ExportedJob {
    pub(super) entry: StoredJob,
    /// None if the job was submitted by SQL.
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) input: Json,
    pub(super) result: Option<Json>,
    /// One JSON event a line, oldest first.
    pub(super) history: String,
    /// In their order.
    pub(super) steps: Vec<Step>,
    /// What was stored for it, in the order in which it was.
    pub(super) blobs: Vec<Blob>,
    /// What it used, if it ended on the way.
    pub(super) used: Option<UsageRow>,
}

impl ExportedJob {
    /// Gives the attempt of a running job back: nobody runs it where it comes from, which was stopped
    /// to be copied. Uncharged, as at any stop in good order: neither the job nor its worker failed.
    ///
    /// That happens at the time of the last event, so that copying the same job again makes the same
    /// of it.
    pub(super) fn released(mut self) -> Result<Self, StoreError> {
        let job = &self.entry.job;
        if job.status != Status::Running {
            return Ok(self);
        }
        let last = self.history.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let at = last.map_or(job.run_at, |event: Event| event.at);
        let lease = LeaseRef { tenant: job.tenant.clone(), job: job.id, epoch: self.entry.epoch };
        let release = Settlement {
            lease,
            outcome: Outcome::Released,
            phases: Vec::new(),
            progress: None,
            artifacts: Vec::new(),
            tokens: crate::job::Tokens::default(),
        };
        self.entry.settle(&release, at)?;
        // It had been asked to stop: that is its end.
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

    /// Whose it is and which.
    pub(crate) fn key(&self) -> (TenantId, JobId) {
        (self.entry.job.tenant.clone(), self.entry.job.id)
    }

    /// How many finished steps it has.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// About how large it is.
    pub(super) fn bytes(&self) -> usize {
        let texts = [Some(&self.input), self.result.as_ref()].into_iter().flatten();
        let texts = texts.chain(self.steps.iter().map(|step| &step.output));
        512 * (1 + self.steps.len())
            + self.history.len()
            + texts.map(|json| json.as_str().len()).sum::<usize>()
    }

    /// A digest of all of it. Compared inside one process only: it may differ between versions.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        // Lengths keep one part from being read as the end of the part before it.
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

/// Bytes as they are read aloud.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// An id that is remembered as gone.
#[derive(Debug, Clone)]
pub(crate) struct Tombstone {
    pub(crate) tenant: String,
    pub(crate) id: String,
    pub(crate) gone_at: i64,
}
