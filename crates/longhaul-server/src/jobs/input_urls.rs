//! URLs in the inputs of jobs: whoever gives one that may not be reached is told at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul::job::Json;
use longhaul_kinds::http::HttpCall;

use crate::problem::{Code, Problem};
use longhaul_net::egress;

/// The kinds whose jobs may name a URL. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct CallerUrls(Arc<BTreeSet<String>>);

impl CallerUrls {
    /// These kinds.
    pub fn of(kinds: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(kinds.into_iter().collect()))
    }

    /// Refuses an input with a URL that will never be reached. It is judged again when it is dialled.
    pub(crate) async fn check(
        &self,
        client: &egress::Client,
        kind: &str,
        input: impl FnOnce() -> Option<Json>,
    ) -> Result<(), Problem> {
        if !self.0.contains(kind) {
            return Ok(());
        }
        // One that cannot be read fails its job, with the reason.
        let Some(url) = input().and_then(|input| HttpCall::of(&input).ok()?.url) else {
            return Ok(());
        };
        match client.check_submission(&url).await {
            Ok(_) => Ok(()),
            Err(refused) => {
                let detail = format!("the input's url cannot be asked: {refused}");
                Err(Problem::new(Code::UrlRefused, detail))
            }
        }
    }
}
