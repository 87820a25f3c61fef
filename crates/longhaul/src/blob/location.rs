//! Parsing the address of a blob store and opening it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use url::Url;

use super::error::BlobError;
use super::local;

/// Timeouts and retries of requests to a cloud store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPolicy {
    /// Timeout of a connection. Defaults to 5 s.
    pub connect_timeout: Duration,
    /// Timeout of one request, which transfers a part of a blob. Defaults to 30 s.
    pub request_timeout: Duration,
    /// Maximum number of retries of a transient failure. Defaults to 3.
    pub retries_max: usize,
    /// Delay before the first retry; later ones are longer, with jitter. Defaults to 200 ms.
    pub backoff_initial: Duration,
    /// Maximum delay between retries. Defaults to 5 s.
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

/// Options for cloud stores.
#[derive(Clone, Default)]
pub struct CloudOptions {
    /// Timeouts and retries.
    pub requests: RequestPolicy,
    /// Variables to use instead of the process's environment, for example `AWS_ACCESS_KEY_ID`.
    pub variables: Option<BTreeMap<String, String>>,
}

impl fmt::Debug for CloudOptions {
    /// Prints only the names of variables, because their values are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.as_ref().map(|variables| variables.keys().collect::<Vec<_>>());
        f.debug_struct("CloudOptions")
            .field("requests", &self.requests)
            .field("variables", &names)
            .finish()
    }
}

/// Division of a blob into parts for its upload. Parts are in memory until they are stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartPolicy {
    /// Size of each part but the last. A smaller blob is uploaded in one request.
    pub(super) bytes: usize,
    pub(super) in_flight_max: usize,
}

/// A local disk gains nothing from larger values.
const LOCAL_PARTS: PartPolicy = PartPolicy { bytes: 1024 * 1024, in_flight_max: 4 };

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backend {
    /// A directory, which may contain unfinished files of killed processes.
    Folder(std::path::PathBuf),
    Memory,
    /// A bucket or container.
    Cloud(VersionInfo),
}

/// Knowledge about versioning that the response to a write gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionInfo {
    /// Everything: S3 either keeps old versions or does not.
    Everything,
    /// The retention of old versions. Azure may also retain deleted blobs for some days, which
    /// `object_store` cannot query.
    Versions,
    /// Nothing: Google numbers every object, whether it keeps old versions or not.
    Nothing,
}

#[derive(Debug)]
pub(super) struct OpenedStore {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) backend: Backend,
    pub(super) parts: PartPolicy,
}

impl OpenedStore {
    pub(super) fn memory() -> Self {
        Self { store: Arc::new(InMemory::new()), backend: Backend::Memory, parts: LOCAL_PARTS }
    }
}

/// Opens the store of an address, without a request to it.
pub(super) fn open(address: &str, options: &CloudOptions) -> Result<OpenedStore, BlobError> {
    if let Some(folder) = address.strip_prefix("file:") {
        let (store, folder) = local::open(folder)?;
        let backend = Backend::Folder(folder);
        return Ok(OpenedStore { store: Arc::new(store), backend, parts: LOCAL_PARTS });
    }
    if address == "memory:" {
        return Ok(OpenedStore::memory());
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
            // Only cloud stores have options.
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
