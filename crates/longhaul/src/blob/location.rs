//! From an address to the store behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use url::Url;

use super::error::BlobError;
use super::local;

/// How long a store in the cloud is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPolicy {
    /// For a connection.
    pub connect_timeout: Duration,
    /// For one request and its answer: a part of a blob, never all of it.
    pub request_timeout: Duration,
    /// How often a request is tried again that failed for no fault of its own.
    pub retries_max: usize,
    /// Before the first of them; later ones wait longer, each for a random time.
    pub backoff_initial: Duration,
    /// At most, between two tries.
    pub backoff_max: Duration,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            retries_max: 3,
            backoff_initial: Duration::from_millis(200),
            backoff_max: Duration::from_secs(5),
        }
    }
}

/// How a store in the cloud is spoken to. Folders and memory need none of it.
#[derive(Clone, Default)]
pub struct CloudOptions {
    /// How long it is waited for.
    pub requests: RequestPolicy,
    /// What is read instead of the environment of this process: `AWS_ACCESS_KEY_ID` and the like.
    pub variables: Option<BTreeMap<String, String>>,
}

impl fmt::Debug for CloudOptions {
    /// Variables hold secrets, so that only their names are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.as_ref().map(|variables| variables.keys().collect::<Vec<_>>());
        f.debug_struct("CloudOptions")
            .field("requests", &self.requests)
            .field("variables", &names)
            .finish()
    }
}

/// How a blob is cut for the way to its store. Parts of an upload are in memory until they are there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// Bytes of each but the last; a blob that is smaller is sent whole.
    pub(super) bytes: usize,
    /// How many may be on their way.
    pub(super) in_flight_max: usize,
}

/// On the way to a disk nothing is gained by more.
const LOCAL_PARTS: Parts = Parts { bytes: 1024 * 1024, in_flight_max: 4 };

/// What kind of backend keeps the blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backend {
    /// A folder, which may hold unfinished files of processes that were killed.
    Folder(std::path::PathBuf),
    /// This process.
    Memory,
    /// A bucket or container.
    #[cfg_attr(
        not(any(feature = "azure", feature = "gcs", feature = "s3")),
        expect(dead_code, reason = "this build knows no cloud")
    )]
    Cloud(VersionInfo),
}

/// What the answer to a write tells of how a cloud keeps what is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "azure", feature = "gcs", feature = "s3")),
    expect(dead_code, reason = "this build knows only some clouds")
)]
pub(super) enum VersionInfo {
    /// All there is to know: S3 keeps old versions or nothing.
    Everything,
    /// Whether old versions are kept. Azure may keep deleted blobs for some days beside that, and shows
    /// them only to who lists them with a request that `object_store` does not make.
    Versions,
    /// Nothing: Google gives every object a number, whether it keeps old ones or not.
    Nothing,
}

/// A store and what has to be known of it.
#[derive(Debug)]
pub(super) struct OpenedStore {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) backend: Backend,
    pub(super) parts: Parts,
}

/// Opens the store of an address, without asking it anything.
pub(super) fn open(address: &str, options: &CloudOptions) -> Result<OpenedStore, BlobError> {
    if let Some(folder) = address.strip_prefix("file:") {
        let (store, folder) = local::open(folder)?;
        let backend = Backend::Folder(folder);
        return Ok(OpenedStore { store: Arc::new(store), backend, parts: LOCAL_PARTS });
    }
    if address == "memory:" {
        let store = Arc::new(InMemory::new());
        return Ok(OpenedStore { store, backend: Backend::Memory, parts: LOCAL_PARTS });
    }
    let url =
        Url::parse(address).map_err(|_| BlobError::refused("its address is not understood"))?;
    if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
        return Err(BlobError::refused(
            "its address holds more than a name before the path; credentials come from the \
             environment, and where the store is says ?endpoint=",
        ));
    }
    match url.scheme() {
        #[cfg(feature = "s3")]
        "s3" => {
            super::cloud::opened(&url, super::cloud::s3(&url, options)?, VersionInfo::Everything)
        }
        #[cfg(feature = "azure")]
        "az" => {
            super::cloud::opened(&url, super::cloud::azure(&url, options)?, VersionInfo::Versions)
        }
        #[cfg(feature = "gcs")]
        "gs" => super::cloud::opened(&url, super::cloud::gcs(&url, options)?, VersionInfo::Nothing),
        scheme if ["s3", "az", "gs"].contains(&scheme) => {
            // Only clouds are waited for.
            let _ = options;
            Err(BlobError::Refused(format!("this build knows no {scheme}: stores")))
        }
        _ => {
            Err(BlobError::refused("its address begins with none of file:, memory:, s3:, az:, gs:"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> String {
        open(address, &CloudOptions::default()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_quoting_it() {
        let secret = "hunter2";
        for address in [
            "hunter2",
            "ftp://hunter2",
            "s3://key:hunter2@bucket",
            "s3://bucket?secret_access_key=hunter2",
            "s3://bucket?endpoint=hunter2",
            "az://box?account=a&sas=hunter2",
            "gs://bucket?hunter2",
            "s3:///hunter2",
            "file://hunter2",
        ] {
            let said = refused(address);
            assert!(said.starts_with("the blob store refused: "), "{said}");
            assert!(!said.contains(secret), "{address}: {said}");
        }
    }
}
