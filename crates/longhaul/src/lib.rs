#![warn(missing_docs)]
#![doc = include_str!("../README.md")]

pub mod blob;
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
pub mod store;
#[cfg(feature = "sqlite")]
pub mod testing;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub mod transfer;
mod worker;

pub use clock::Clock;
pub use ctx::{ArtifactWriter, Ctx, Payload, StepCall};
pub use engine::{
    ArtifactError, BuildError, BulkCommand, Engine, EngineBuilder, FingerprintFn, Handler, JobArgs,
    JobHandle, Kind, KindSettings, Receipt, ResultError, StagedPayload, StoredArtifact, Submission,
    SubmitError, Upload, UploadError, Watcher,
};
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
