#![warn(missing_docs)]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Parts of features that are off are compiled where that needs no further dependency, and not
// exported. The build with all features finds code that is really unused.
#![cfg_attr(
    not(all(feature = "azure", feature = "gcs", feature = "s3", feature = "server")),
    allow(dead_code, unreachable_pub)
)]

#[cfg(feature = "blobs")]
pub mod blob;
#[doc(hidden)]
pub mod clock;
mod ctx;
mod engine;
#[cfg(feature = "failpoints")]
pub mod failpoint;
#[cfg(not(feature = "failpoints"))]
mod failpoint;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod guide;
pub mod job;
mod metrics;
mod random;
mod setters;
pub mod store;
mod sync;
#[cfg(feature = "sqlite")]
pub mod testing;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub mod transfer;
mod worker;

#[doc(inline)]
pub use clock::Clock;
#[cfg(feature = "blobs")]
pub use ctx::{ArtifactWriter, Payload};
pub use ctx::{Ctx, StepCall};
#[cfg(feature = "blobs")]
pub use engine::{ArtifactError, Receipt, StagedPayload, StoredArtifact, Upload, UploadError};
pub use engine::{
    BuildError, BulkCommand, Engine, EngineBuilder, FingerprintFn, JobArgs, JobHandle, Kind,
    KindSettings, ResultError, Submission, SubmitError, Watcher,
};
#[cfg(feature = "server")]
pub use engine::{OutputRead, OutputReader, OutputWriter};
#[doc(inline)]
pub use job::{Job, JobError, JobId, Retention, Retry, Status, TenantId, Timestamp};

/// The result of a handler or a step, with [`JobError`] as its error.
pub type Result<T, E = JobError> = std::result::Result<T, E>;

/// Runs the Rust examples of the README and of the guide for embedders.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct FrontPage;
    #[doc = include_str!("../../../docs/embed.md")]
    struct Embed;
}
