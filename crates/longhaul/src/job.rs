//! What a job is and what may happen to it: pure, with no tokio, no SQL and no clock of its own.

mod canonical;
mod delivery;
mod dialect;
mod duration;
mod error;
mod fingerprint;
mod flow;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod id;
mod json;
mod limits;
mod name;
mod next;
mod record;
mod retry;
mod status;
mod timestamp;
mod usage;

pub use delivery::{
    AT_LABEL, DELIVERED_RESULT_BYTES_MAX, DELIVERY_ATTEMPTS, DELIVERY_KIND, DELIVERY_RETENTION,
    Delivery, ENDPOINT_LABEL, EVENT_LABEL, EventFilter, EventType, MESSAGE_LABEL, Receiver,
    URL_LABEL, UnknownEvent, Webhook, delivery_id, told_version,
};
pub(crate) use dialect::CANCELLING;
pub use dialect::{Before, Dialect, LOADING, State, WORKING};
pub use duration::{DurationError, format_duration, parse_duration};
pub use error::JobError;
pub use fingerprint::Fingerprint;
pub use flow::{Bucket, Rate};
pub use id::{IdSource, JobId};
pub use json::{Json, JsonError};
pub use limits::{LimitError, Limits, within};
pub use name::{Name, NameError, TenantId};
pub use next::{Next, Outcome, Standing};
pub use record::{Artifact, Attempt, Event, Job, Progress, Record, Retention, Step};
pub use retry::Retry;
pub use status::{Command, Status, Transition};
pub use timestamp::Timestamp;
pub use usage::{Tally, Tokens, USAGE_KEPT, Usage, UsageRow, hour_of};
