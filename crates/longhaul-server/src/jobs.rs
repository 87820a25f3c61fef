//! Job service: what the API, the proxy, the compatibility APIs and the dashboard do with jobs.
//!
//! HTTP handlers parse a request, call one function here, and format its result.

pub(crate) mod control;
pub(crate) mod details;
mod input_urls;
pub(crate) mod query;
pub(crate) mod submit;
pub(crate) mod upload;
pub(crate) mod wait;

pub use input_urls::CallerUrls;
pub use upload::Uploads;
