//! Metadata of payloads, artifacts and work directories, whose bytes are in the blob store or on a host.

use std::fmt;
use std::time::Duration;

use crate::job::{Artifact, JobId, TenantId, Timestamp};

/// The role of stored bytes in their job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobRole {
    /// Uploaded with the submission. Unreadable as soon as the job finishes, and then deleted.
    Payload,
    /// Produced by the job. Deleted with it.
    Artifact,
    /// A work directory that the payload was written to in clear. Deleted when the attempt ends.
    Folder,
}

impl BlobRole {
    /// Returns the name used in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Artifact => "artifact",
            Self::Folder => "folder",
        }
    }

    /// Parses a name that [`Self::as_str`] returned.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Payload, Self::Artifact, Self::Folder];
        all.into_iter().find(|role| role.as_str() == word)
    }
}

/// A blob's encryption key, wrapped with a server key that the store does not have.
#[derive(Clone, PartialEq, Eq)]
pub struct WrappedKey(pub Vec<u8>);

impl fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappedKey(…)")
    }
}

/// A payload or artifact that is already in the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBlob {
    /// Path in the blob store.
    pub path: String,
    /// Name, unique among the job's artifacts.
    pub name: String,
    /// Media type.
    pub content_type: String,
    /// Size before encryption, in bytes.
    pub size: u64,
    /// SHA-256 of the unencrypted bytes.
    pub digest: [u8; 32],
    /// Encryption key.
    pub key: WrappedKey,
    /// Replica that stored it.
    pub replica: String,
}

impl NewBlob {
    /// Returns the artifact as it is shown in its job.
    pub fn to_artifact(&self) -> Artifact {
        Artifact {
            name: self.name.clone(),
            content_type: self.content_type.clone(),
            size: self.size,
        }
    }
}

/// A stored blob and its deletion state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Role in the job.
    pub role: BlobRole,
    /// Path in the blob store; for a work directory, `host:path`.
    pub path: String,
    /// Name, unique among the job's artifacts.
    pub name: String,
    /// Media type.
    pub content_type: String,
    /// Size before encryption, in bytes.
    pub size: u64,
    /// SHA-256 of the unencrypted bytes; `None` for a work directory.
    pub digest: Option<[u8; 32]>,
    /// Encryption key; `None` after it was destroyed.
    pub key: Option<WrappedKey>,
    /// Time of upload.
    pub stored_at: Timestamp,
    /// Replica that stored it.
    pub stored_by: String,
    /// Time when the key was destroyed, which makes the blob unreadable.
    pub key_destroyed_at: Option<Timestamp>,
    /// Time of deletion.
    pub deleted_at: Option<Timestamp>,
    /// Replica that deleted it.
    pub deleted_by: Option<String>,
    /// Number of failed deletions.
    pub failures: u32,
    /// Error of the last failed deletion.
    pub failure: Option<String>,
}

/// A reference to a stored blob.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobRef {
    /// Tenant of the job.
    pub tenant: TenantId,
    /// Job that owns the blob.
    pub job: JobId,
    /// Path in the blob store, or `host:path`.
    pub path: String,
}

/// A deletion attempt.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// Deleted blob.
    pub blob: BlobRef,
    /// Error, if the deletion failed.
    pub failure: Option<String>,
}

/// Delay before the first retry of a failed deletion. Doubles with each failure.
pub(super) const DELETE_RETRY_FIRST: Duration = Duration::from_secs(5);
/// Maximum delay before a retry of a failed deletion.
pub(super) const DELETE_RETRY_MAX: Duration = Duration::from_mins(15);

/// Returns the half-open range that contains the paths of all work directories of a host.
pub(super) fn host_range(host: &str) -> (String, String) {
    // `;` is the character after `:`.
    (format!("{host}:"), format!("{host};"))
}
