//! Usage of finished jobs.

use reqwest::Url;

use super::call::Call;
use super::{Client, ClientError};
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

impl Client {
    /// Returns the usage of the tenant's finished jobs.
    pub async fn usage(&self, request: &UsageRequest) -> Result<Usage, ClientError> {
        self.json(Call::get(self.usage_url(request)?)).await
    }

    /// Returns the usage as comma-separated values, without the total.
    pub async fn usage_csv(&self, request: &UsageRequest) -> Result<Vec<u8>, ClientError> {
        let mut url = self.usage_url(request)?;
        url.query_pairs_mut().append_pair("format", "csv");
        self.bytes(Call::get(url)).await
    }

    fn usage_url(&self, request: &UsageRequest) -> Result<Url, ClientError> {
        let UsageRequest { from, to, by } = request;
        let mut url = self.url(&["v1", "usage"])?;
        let given = [
            ("from", from.as_ref().map(Instant::as_str)),
            ("to", to.as_ref().map(Instant::as_str)),
            ("by", by.map(UsageBy::as_str)),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        Ok(url)
    }
}
