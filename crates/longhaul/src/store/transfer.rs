//! Jobs and table rows in transfer from one store to another.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::stored_job::StoredJob;
use super::{LeaseRef, Settlement, StoreError};
use crate::job::{
    Event, Fingerprint, JobId, Json, Outcome, Status, Step, TenantId, UsageRow, hour_of,
};

/// A job with its input, result, history and steps.
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
        hash.finalize().into()
    }
}

/// Encodes bytes as lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A table whose rows are copied as they are, because both stores have the same columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransferTable {
    PausedQueues,
    /// The levels of token buckets. No job runs after the copy.
    LimitCounters,
    Tenants,
    ApiKeys,
    Endpoints,
    BillingEvents,
    Audit,
    /// In the target: usage of jobs that the source ran.
    Usage,
    Tombstones,
    Blobs,
    /// The ids of all jobs, compared to find jobs that only the target has. Their rows differ between the stores, so
    /// they are copied as [`ExportedJob`].
    JobIds,
}

impl TransferTable {
    /// The tables whose rows are copied, in this order. Paused queues come first, so that a server that is started too
    /// early does not run their jobs.
    pub(crate) const COPIED: [Self; 10] = [
        Self::PausedQueues,
        Self::LimitCounters,
        Self::Tenants,
        Self::ApiKeys,
        Self::Endpoints,
        Self::BillingEvents,
        Self::Audit,
        Self::Usage,
        Self::Tombstones,
        Self::Blobs,
    ];

    /// Returns the name in the database.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PausedQueues => "paused_queues",
            Self::LimitCounters => "limit_counters",
            Self::Tenants => "tenants",
            Self::ApiKeys => "api_keys",
            Self::Endpoints => "endpoints",
            Self::BillingEvents => "billing_events",
            Self::Audit => "audit",
            Self::Usage => "usage",
            Self::Tombstones => "tombstones",
            Self::Blobs => "blobs",
            Self::JobIds => "jobs",
        }
    }

    /// Returns the columns that order the rows and identify each.
    fn key(self) -> &'static [&'static str] {
        match self {
            Self::Tenants | Self::ApiKeys | Self::BillingEvents | Self::Audit => &["id"],
            Self::PausedQueues => &["tenant_id", "name"],
            Self::LimitCounters => &["scope", "name"],
            Self::Endpoints | Self::Tombstones | Self::JobIds => &["tenant_id", "id"],
            Self::Blobs => &["tenant_id", "id", "path"],
            Self::Usage => &["tenant_id", HOUR, "kind", "key_id", "origin"],
        }
    }

    /// Returns a cursor before the first row.
    pub(crate) fn start(self) -> Vec<String> {
        // No tenant, id or scope is the empty text.
        let before = |column: &&str| if *column == HOUR { "0" } else { "" };
        self.key().iter().map(before).map(str::to_owned).collect()
    }
}

/// The only column of a key that is a number.
const HOUR: &str = "hour";

/// A row by column. Bytes are texts in hexadecimal after `\x`, truth values are numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportedRow(pub(crate) BTreeMap<String, Value>);

impl ExportedRow {
    /// Returns the row's key, which orders the rows like both stores.
    pub(crate) fn key(&self, table: TransferTable) -> RowKey {
        let part = |column: &&str| match self.0.get(*column) {
            Some(Value::String(text)) => KeyPart::Text(text.clone()),
            Some(Value::Number(number)) => KeyPart::Number(number.as_i64().unwrap_or_default()),
            // No column of a key is null.
            Some(_) | None => KeyPart::Number(0),
        };
        RowKey(table.key().iter().map(part).collect())
    }

    /// Returns the text in a column.
    pub(crate) fn text(&self, column: &str) -> Option<&str> {
        self.0.get(column)?.as_str()
    }

    /// Returns the bytes in a column.
    pub(crate) fn bytes(&self, column: &str) -> Option<Vec<u8>> {
        let digits = self.text(column)?.strip_prefix("\\x")?.as_bytes();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect()
    }

    /// Returns true if a column is null.
    pub(crate) fn is_null(&self, column: &str) -> bool {
        self.0.get(column).is_some_and(Value::is_null)
    }

    /// Returns a digest of all columns and their values.
    pub(crate) fn digest(&self) -> Result<[u8; 32], StoreError> {
        let row = serde_json::to_vec(&self.0);
        let row = row.map_err(|error| StoreError::Broken(error.to_string()))?;
        Ok(Sha256::digest(row).into())
    }
}

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey(Vec<KeyPart>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum KeyPart {
    Number(i64),
    Text(String),
}

impl RowKey {
    /// Returns the cursor of the page after this row.
    pub(crate) fn to_cursor(&self) -> Vec<String> {
        self.0.iter().map(KeyPart::to_string).collect()
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_cursor().join("/"))
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}
