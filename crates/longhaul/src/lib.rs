#![doc = include_str!("../README.md")]

pub mod clock;
#[cfg(feature = "postgres")]
pub mod copy;
mod ctx;
mod engine;
pub mod job;
pub mod store;
mod worker;

pub use clock::Clock;
pub use ctx::{Ctx, StepCall};
pub use engine::{
    BuildError, Bulk, Engine, EngineBuilder, Handler, JobHandle, Kind, ResultError, Submission,
    SubmitError, Watcher,
};
pub use job::{Job, JobError, JobId, Retention, Retry, Status, TenantId, Timestamp};

/// Runs the example of the project's front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
