//! Service layer for jobs, used by the API, the proxy, the compatibility APIs and the dashboard.

pub(crate) mod input_urls;
pub(crate) mod upload;

pub use input_urls::CallerUrls;
pub use upload::Uploads;
