//! Server keys that copied data depends on. They are not in the database, so operators must carry them over.

use std::collections::BTreeMap;

use crate::blob::Keyring;
use crate::store::transfer::{ExportedRow, TransferTable};

/// Copied data that is of no use without one server key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerKeyUses {
    /// API keys that are not revoked, whose secrets are verified with the server key.
    pub api_keys: u64,
    /// Webhook endpoints, whose secrets are encrypted with the server key.
    pub endpoints: u64,
    /// Payloads and artifacts, whose keys are encrypted with the server key.
    pub blobs: u64,
}

/// Uses of each server key.
#[derive(Default)]
pub(super) struct ServerKeyCounts(BTreeMap<String, ServerKeyUses>);

impl ServerKeyCounts {
    /// Counts a row.
    pub(super) fn count(&mut self, table: TransferTable, row: &ExportedRow) {
        match table {
            TransferTable::ApiKeys if row.is_null("revoked_at") => {
                self.add(row.text("server_key"), |uses| &mut uses.api_keys);
            }
            TransferTable::Endpoints => {
                let id = row.text("secret").and_then(Keyring::id_of_text);
                self.add(id.as_deref(), |uses| &mut uses.endpoints);
            }
            TransferTable::Blobs => {
                let wrapped = row.bytes("wrapped_key");
                self.add(wrapped.as_deref().and_then(Keyring::id_of_wrapped), |uses| {
                    &mut uses.blobs
                });
            }
            TransferTable::ApiKeys
            | TransferTable::PausedQueues
            | TransferTable::LimitCounters
            | TransferTable::Tenants
            | TransferTable::BillingEvents
            | TransferTable::Audit
            | TransferTable::Usage
            | TransferTable::Tombstones
            | TransferTable::JobIds => {}
        }
    }

    fn add(&mut self, id: Option<&str>, count: impl FnOnce(&mut ServerKeyUses) -> &mut u64) {
        if let Some(id) = id {
            *count(self.0.entry(id.to_owned()).or_default()) += 1;
        }
    }

    pub(super) fn into_uses(self) -> BTreeMap<String, ServerKeyUses> {
        self.0
    }
}
