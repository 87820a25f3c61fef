//! Deletion receipts: everything stored for a job, and its deletion.

use serde::{Deserialize, Serialize};

use super::Instant;

responses! {
    /// Deletion receipt of a job.
    pub struct Receipt {
        /// Id of the job.
        pub job_id: String,
        /// True if the job itself is deleted.
        pub job_gone: bool,
        /// Time of this receipt.
        pub at: Instant,
        /// True if nothing that was stored can be read any more, in plain text or with a key.
        pub unreadable: bool,
        /// True if everything that was stored is deleted.
        pub deleted: bool,
        /// Stored objects, oldest first.
        pub stored: Vec<Stored>,
    }
}

/// Role of a stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StoredRole {
    /// Uploaded with the job.
    Payload,
    /// Produced by the job.
    Artifact,
    /// Working directory with the payload in plain text.
    Folder,
}

responses! {
    /// An object that was stored for a job.
    pub struct Stored {
        /// Role of the object.
        pub role: StoredRole,
        /// Name; host and path for a folder.
        pub name: String,
        /// Media type; empty for a folder.
        pub content_type: String,
        /// Unencrypted size in bytes; null for a folder.
        pub size: Option<u64>,
        /// Hexadecimal SHA-256 of the unencrypted bytes; null for a folder.
        pub sha256: Option<String>,
        /// Time at which it was stored.
        pub stored_at: Instant,
        /// Replica that stored it.
        pub stored_by: String,
        /// Time at which its encryption key was destroyed, after which it cannot be read; null before.
        pub key_destroyed_at: Option<Instant>,
        /// Time at which it was deleted; null before.
        pub deleted_at: Option<Instant>,
        /// Replica that deleted it.
        pub deleted_by: Option<String>,
        /// Failed deletions; deletion is retried until it succeeds.
        pub failed_deletions: u32,
    }
}
