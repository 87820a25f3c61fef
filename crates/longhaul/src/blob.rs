//! Encrypted blobs, for payloads and artifacts that are too large for the database.
//!
//! They are stored in a directory, in memory or in the cloud, encrypted with a key of the job that
//! they belong to. The database records the blobs, their sizes and their jobs' keys. A blob without
//! a record is an orphan, which [`Blobs::list`] finds.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use futures_util::TryStreamExt as _;
//! use longhaul::blob::{BlobPath, Blobs, JobKey};
//! use longhaul::{JobId, TenantId, Timestamp};
//!
//! let blobs = Blobs::open("memory:").unwrap();
//! let job = JobId::from_parts(Timestamp::from_millis(0), 1);
//! let (path, key) = (BlobPath::new(&TenantId::default(), job), JobKey::generate());
//!
//! let mut writer = blobs.writer(&path, &key);
//! writer.write("hello".into()).await.unwrap();
//! let written = writer.finish().await.unwrap();
//!
//! let pieces: Vec<_> =
//!     blobs.read(&path, &key, written.size, Some(1..4)).await.unwrap().try_collect().await.unwrap();
//! assert_eq!(pieces.concat(), b"ell");
//! # });
//! ```

mod cipher;
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
mod cloud;
mod encryption;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod key_markers;
mod keys;
mod layout;
mod local;
mod location;
mod path;
mod reader;
mod store;
mod upload;
mod writer;

pub use error::BlobError;
pub use key_markers::{KEY_MARKERS_NAME, KeyCheck};
pub use keys::{JobKey, KeyError, Keyring};
pub use layout::BLOB_BYTES_MAX;
pub use location::{CloudOptions, RequestPolicy};
pub use path::{BlobPath, BlobPathError};
pub use reader::BlobStream;
pub use store::{Blobs, DeletedBlobs};
pub use writer::{BlobWriter, WrittenBlob};
