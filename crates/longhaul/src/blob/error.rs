//! Errors of blob stores, by what the caller can do.

use std::error::Error;
use std::io::{self, ErrorKind};

use super::encryption::Damage;
use super::layout::BLOB_BYTES_MAX;

/// Metadata services, which give cloud machines their credentials.
const METADATA_SERVICES: [&str; 3] = ["//169.254.169.254", "//169.254.170.2", "//metadata.google"];

/// An error of a blob store. No message contains a key, a credential or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The blob does not exist. Fix the request, or call the operator.
    #[error("there is no such blob")]
    Missing,
    /// The blob is not what was written. Call the operator: a backup may have it.
    #[error("the blob is damaged: {0}")]
    Damaged(String),
    /// The blob is too large. Fix the request.
    #[error("a blob has at most {BLOB_BYTES_MAX} bytes")]
    TooLarge,

    /// Try again later. It is unknown whether a write happened.
    #[error("the blob store is not available: {0}")]
    Unavailable(String),
    /// The storage is full. Call the operator; no restart is needed afterwards.
    #[error("the blob storage is full")]
    StorageFull,
    /// Call the operator to fix credentials, permissions or configuration.
    #[error("the blob store refused: {0}")]
    Refused(String),
}

impl BlobError {
    /// Returns whether the same call may succeed later.
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
            Trouble::PermissionDenied { .. } => Self::Refused(describe("not permitted", &error)),
            Trouble::Unauthenticated { .. } => {
                Self::Refused(describe("the credentials are not accepted", &error))
            }
            _ => from_causes(&error),
        }
    }
}

/// Converts the deepest known cause. Messages of stores are not passed on, because they quote
/// addresses and signed data.
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
            BlobError::Unavailable(describe(&format!("it answered {status}"), error))
        }
        Some(status) => BlobError::Refused(describe(&format!("it answered {status}"), error)),
        None if text.contains("incorrectly configured region") => {
            BlobError::refused("the bucket is in another region")
        }
        None => BlobError::refused("it answers in a way that is not understood"),
    }
}

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

pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        // Some messages include their source.
        if !text.contains(&deeper.to_string()) {
            text = format!("{text}: {deeper}");
        }
        cause = deeper.source();
    }
    text
}

/// Extracts the HTTP status, whose type is private to `object_store`.
fn status_in(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// Formats what happened, with the store's error code if it has one.
fn describe(what: &str, error: &object_store::Error) -> String {
    let text = error.to_string();
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    match code {
        Some((code, _)) if code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            format!("{what} ({code})")
        }
        Some(_) | None => what.to_owned(),
    }
}
