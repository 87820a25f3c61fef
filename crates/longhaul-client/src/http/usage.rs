//! Usage of finished jobs.

use super::call::{Call, append_query};
use super::{Client, Result};
use crate::wire::{Instant, Usage, UsageBy};

/// Options of [`Client::usage`]. Absent values use the server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageRequest {
    /// Start, rounded down to the hour.
    pub from: Option<Instant>,
    /// End: hours that start before it are included.
    pub to: Option<Instant>,
    /// Period of each row.
    pub by: Option<UsageBy>,
}

impl UsageRequest {
    fn query(&self) -> [(&'static str, Option<&str>); 3] {
        [
            ("from", self.from.as_ref().map(Instant::as_str)),
            ("to", self.to.as_ref().map(Instant::as_str)),
            ("by", self.by.map(UsageBy::as_str)),
        ]
    }
}

impl Client {
    /// Returns the usage of the tenant's finished jobs.
    pub async fn usage(&self, request: &UsageRequest) -> Result<Usage> {
        self.get(&["v1", "usage"], &request.query()).await
    }

    /// Returns the usage as comma-separated values, without the total.
    pub async fn usage_csv(&self, request: &UsageRequest) -> Result<Vec<u8>> {
        let mut url = self.url(&["v1", "usage"])?;
        append_query(&mut url, &request.query());
        append_query(&mut url, &[("format", Some("csv"))]);
        self.bytes(Call::get(url)).await
    }
}
