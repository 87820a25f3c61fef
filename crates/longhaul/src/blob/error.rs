//! What can go wrong with blobs, by what the caller can do about it.

use std::error::Error;
use std::io::{self, ErrorKind};

use super::encryption::Damage;
use super::layout::BLOB_BYTES_MAX;

/// Where clouds' machines are version_info their credentials.
const METADATA_SERVICES: [&str; 3] = ["//169.254.169.254", "//169.254.170.2", "//metadata.google"];

/// Why a blob cannot be written or read. No message holds a key, a credential or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// Fix the request, or tell the operator: nothing of that name is there.
    #[error("there is no such blob")]
    Missing,
    /// Tell the operator: what is there is not what was written. A backup may have it.
    #[error("the blob is damaged: {0}")]
    Damaged(String),
    /// Fix the request.
    #[error("a blob has at most {BLOB_BYTES_MAX} bytes")]
    TooLarge,

    /// Try again later. Whether a write happened is unknown.
    #[error("the blob store is not available: {0}")]
    Unavailable(String),
    /// Tell the operator: no room. It heals by itself.
    #[error("the blob storage is full")]
    StorageFull,
    /// Tell the operator: fix credentials, permissions or configuration.
    #[error("the blob store refused: {0}")]
    Refused(String),
}

impl BlobError {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::StorageFull => true,
            Self::Missing | Self::Damaged(_) | Self::TooLarge | Self::Refused(_) => false,
        }
    }

    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}

impl From<Damage> for BlobError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage.to_string())
    }
}

impl From<object_store::Error> for BlobError {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as Trouble;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the rest is version_info by its causes"
        )]
        match &error {
            Trouble::NotFound { .. } => Self::Missing,
            Trouble::JoinError { .. } => Self::Unavailable("the process is stopping".to_owned()),
            Trouble::PermissionDenied { .. } => Self::Refused(said("not permitted", &error)),
            Trouble::Unauthenticated { .. } => {
                Self::Refused(said("the credentials are not accepted", &error))
            }
            _ => from_causes(&error),
        }
    }
}

/// What the deepest cause that we know says. Messages of stores are not passed on: they quote
/// addresses, and what was signed.
fn from_causes(error: &object_store::Error) -> BlobError {
    let text = error.to_string();
    if METADATA_SERVICES.iter().any(|address| text.contains(address)) {
        return BlobError::Unavailable(
            "there are no credentials in the environment, and the machine's metadata service gives \
             none"
                .to_owned(),
        );
    }
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(here) = cause {
        #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
        if let Some(why) = super::cloud::lost_line(here) {
            return BlobError::Unavailable(why);
        }
        if let Some(error) = here.downcast_ref::<io::Error>() {
            return from_io(error);
        }
        cause = here.source();
    }
    match status_in(&text) {
        Some(status @ (408 | 429 | 500..)) => {
            BlobError::Unavailable(said(&format!("it answered {status}"), error))
        }
        Some(status) => BlobError::Refused(said(&format!("it answered {status}"), error)),
        None if text.contains("incorrectly configured region") => {
            BlobError::refused("the bucket is in another region")
        }
        None => BlobError::refused("it answers in a way that is not understood"),
    }
}

/// What the file system says.
pub(super) fn from_io(error: &io::Error) -> BlobError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "there are forty kinds")]
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => BlobError::StorageFull,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            BlobError::Refused(error.to_string())
        }
        _ => BlobError::Unavailable(error.to_string()),
    }
}

/// An error and what caused it.
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        // Some quote their cause themselves.
        if !text.contains(&deeper.to_string()) {
            text = format!("{text}: {deeper}");
        }
        cause = deeper.source();
    }
    text
}

/// The status of an answer. It is kept in a type that cannot be named outside of `object_store`.
fn status_in(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// What happened, and the word that the store has for it, if it gives one.
fn said(what: &str, error: &object_store::Error) -> String {
    let text = error.to_string();
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    match code {
        Some((code, _)) if code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            format!("{what} ({code})")
        }
        Some(_) | None => what.to_owned(),
    }
}
