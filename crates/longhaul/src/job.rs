//! The job model: types, the status machine and pure decisions. No tokio, no SQL, no clock.

mod canonical;
mod delivery;
mod duration;
mod error;
mod fingerprint;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod id;
mod json;
mod limits;
mod name;
mod names;
mod outcome;
mod record;
mod retry;
mod status;
mod timestamp;
mod token_bucket;
mod usage;
mod webhook_format;

#[cfg(not(feature = "server"))]
pub(crate) use delivery::*;
#[cfg(feature = "server")]
pub use delivery::*;
pub use duration::{DurationError, format_duration, parse_duration};
pub use error::JobError;
pub use fingerprint::Fingerprint;
#[cfg(feature = "postgres")]
pub(crate) use id::EncodedId;
pub use id::{IdSource, JobId};
pub use json::{Json, JsonError};
pub(crate) use limits::check_limit;
pub use limits::{LimitError, Limits};
pub use name::{IntoName, Name, NameError, TenantId};
pub use outcome::{AttemptContext, Disposition, Outcome};
pub use record::{Artifact, Attempt, Event, Job, Progress, Record, Retention, Step};
pub use retry::Retry;
pub use status::{Command, Status, Transition};
pub use timestamp::Timestamp;
pub use token_bucket::{Rate, TokenBucket};
pub use usage::{Tokens, USAGE_RETENTION, Usage, UsageMeter, UsageRow, hour_of};
#[cfg(not(feature = "server"))]
pub(crate) use webhook_format::*;
#[cfg(feature = "server")]
pub use webhook_format::*;
