//! Checks of URLs in job inputs, so that a forbidden URL is rejected at submission.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul::job::Json;
use longhaul_kinds::http::HttpCall;

use crate::problem::{Code, Problem, Result};
use longhaul_net::egress;

/// Kinds whose input may contain a URL. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct CallerUrls(Arc<BTreeSet<String>>);

impl CallerUrls {
    pub fn of(kinds: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(kinds.into_iter().collect()))
    }

    /// Rejects an input with a URL that the egress policy forbids. The policy is enforced again when the job connects.
    pub(crate) async fn check(
        &self,
        client: &egress::Client,
        kind: &str,
        input: impl FnOnce() -> Option<Json>,
    ) -> Result<()> {
        if !self.0.contains(kind) {
            return Ok(());
        }
        // An invalid input fails the job, with the reason.
        let Some(url) = input().and_then(|input| HttpCall::of(&input).ok()?.url) else {
            return Ok(());
        };
        match Box::pin(client.check_submission(&url)).await {
            Ok(_) => Ok(()),
            Err(refused) => {
                let detail = format!("the input's url is not allowed: {refused}");
                Err(Problem::new(Code::UrlRefused, detail))
            }
        }
    }
}
