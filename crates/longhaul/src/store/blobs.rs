//! What stores know of bytes that are kept elsewhere: payloads, artifacts, and folders that held them.

use std::fmt;
use std::time::Duration;

use crate::job::{Artifact, JobId, TenantId, Timestamp};

/// What stored bytes are to their job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobRole {
    /// What was uploaded with it. Unreadable from the moment that the job ends, and then deleted.
    Payload,
    /// What it produced. Deleted with the job.
    Artifact,
    /// A working folder that its payload was written to in clear. Deleted when the attempt ends.
    Folder,
}

impl BlobRole {
    /// The word used in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Artifact => "artifact",
            Self::Folder => "folder",
        }
    }

    /// Reads the word back.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Payload, Self::Artifact, Self::Folder];
        all.into_iter().find(|role| role.as_str() == word)
    }
}

/// A blob's key, sealed with a key of the server's that no store knows.
#[derive(Clone, PartialEq, Eq)]
pub struct WrappedKey(pub Vec<u8>);

impl fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappedKey(…)")
    }
}

/// A payload or an artifact whose bytes are in the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBlob {
    /// Where it is, in the words of the blob store.
    pub path: String,
    /// Its name, unique among the job's artifacts.
    pub name: String,
    /// What it is.
    pub content_type: String,
    /// Its size in clear, in bytes.
    pub size: u64,
    /// SHA-256 of its bytes in clear.
    pub digest: [u8; 32],
    /// What it can be read with.
    pub key: WrappedKey,
    /// Who stored it.
    pub replica: String,
}

impl NewBlob {
    /// As its job shows it.
    pub fn to_artifact(&self) -> Artifact {
        Artifact {
            name: self.name.clone(),
            content_type: self.content_type.clone(),
            size: self.size,
        }
    }
}

/// Something that was stored for a job, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// What it is to the job.
    pub role: BlobRole,
    /// Where it is or was, in the words of the blob store; a folder's host and path.
    pub path: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub content_type: String,
    /// Its size in clear, in bytes.
    pub size: u64,
    /// SHA-256 of its bytes in clear; none of a folder.
    pub digest: Option<[u8; 32]>,
    /// What it can be read with; none once that was destroyed.
    pub key: Option<WrappedKey>,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Who stored it.
    pub stored_by: String,
    /// When its key was destroyed: from then on nobody can read it.
    pub key_destroyed_at: Option<Timestamp>,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// Who deleted it.
    pub deleted_by: Option<String>,
    /// How often deleting it has failed.
    pub failures: u32,
    /// Why, the last time.
    pub failure: Option<String>,
}

/// Names something that was stored for a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobRef {
    /// Whose job.
    pub tenant: TenantId,
    /// The job.
    pub job: JobId,
    /// Where it is or was.
    pub path: String,
}

/// An attempt to delete something.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// What.
    pub blob: BlobRef,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// How soon a deletion that failed is tried again; each further time after twice as long.
pub(super) const DELETE_RETRY_FIRST: Duration = Duration::from_secs(5);
/// The longest that it takes until the next try.
pub(super) const DELETE_RETRY_MAX: Duration = Duration::from_mins(15);

/// Paths of a host's folders are at or after the first and before the second of these.
pub(super) fn host_range(host: &str) -> (String, String) {
    // The character after a colon.
    (format!("{host}:"), format!("{host};"))
}
