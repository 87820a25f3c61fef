//! What finished jobs used.

use reqwest::Url;

use super::call::Call;
use super::{Client, ClientError};
use crate::wire::{Instant, Usage, UsageBy};

/// Which usage; the server's own choice where nothing is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageRequest {
    /// From the hour that this is in.
    pub from: Option<Instant>,
    /// Hours that began before this.
    pub to: Option<Instant>,
    /// By what to sum up.
    pub by: Option<UsageBy>,
}

impl Client {
    /// What the tenant's finished jobs used.
    pub async fn usage(&self, request: &UsageRequest) -> Result<Usage, ClientError> {
        self.json(Call::get(self.usage_url(request)?)).await
    }

    /// The same as a table of comma-separated values, without the total.
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
