//! What was stored for a job besides its row, and when it was gone.

use serde::{Deserialize, Serialize};

use super::Instant;

/// What was stored for a job, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    /// The job.
    pub job_id: String,
    /// Whether the job itself was deleted.
    pub job_gone: bool,
    /// As of when this is true.
    pub at: Instant,
    /// Whether nothing of what was stored can be read any more, in clear or with a key.
    pub unreadable: bool,
    /// Whether all that was stored is deleted.
    pub deleted: bool,
    /// All of it, in the order in which it was stored.
    pub stored: Vec<Stored>,
}

/// What stored bytes are to their job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StoredRole {
    /// What was uploaded with it.
    Payload,
    /// What it produced.
    Artifact,
    /// A working folder that the payload was written to in clear.
    Folder,
}

/// Something that was stored for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stored {
    /// What it is to the job.
    pub role: StoredRole,
    /// Its name; of a folder its host and path.
    pub name: String,
    /// Its media type; empty of a folder.
    pub content_type: String,
    /// Its size in clear, in bytes; null of a folder.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub size: Option<u64>,
    /// SHA-256 of its bytes in clear, in hexadecimal digits; null of a folder.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub sha256: Option<String>,
    /// When it was stored.
    pub stored_at: Instant,
    /// The replica that stored it.
    pub stored_by: String,
    /// When its key was destroyed: from then on nobody can read it. Null as long as there is one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub key_destroyed_at: Option<Instant>,
    /// When it was deleted; null as long as it is there.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub deleted_at: Option<Instant>,
    /// The replica that deleted it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub deleted_by: Option<String>,
    /// How often deleting it has failed; it is tried until it succeeds.
    pub failed_deletions: u32,
}
