//! Synchronous requests: `Prefer: wait` (RFC 7240) and `?mode=sync`.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use crate::api::http::params::{Pairs, bad, items, whole};
use crate::problem::Result;

/// Lists the preferences that were honoured.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The preferences that the server honours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Preference {
    /// Time to wait for the job.
    pub(crate) wait: Duration,
    /// Value of `Preference-Applied`.
    pub(crate) applied: Option<String>,
}

/// Parses the request's preferences. Invalid preferences are ignored, as the RFC requires; an invalid
/// `mode` is an error.
pub(crate) fn preference(
    headers: &HeaderMap,
    query: Pairs,
    wait_max: Duration,
) -> Result<Preference> {
    let sync = match query.only("mode")?.as_deref() {
        Some("sync") => true,
        Some("async") | None => false,
        Some(other) => return Err(bad(format_args!("mode must be sync or async, not {other:?}"))),
    };
    Ok(Preference::of(headers, sync, wait_max))
}

impl Preference {
    /// Parses the headers; `sync` is the default without a preference.
    pub(crate) fn of(headers: &HeaderMap, sync: bool, wait_max: Duration) -> Self {
        let (wait, respond_async) = (
            requested_wait(headers),
            items(headers, PREFER).any(|token| token.eq_ignore_ascii_case("respond-async")),
        );
        let wait = wait.map(|wait| wait.min(wait_max));
        let mut applied = Vec::new();
        if respond_async {
            applied.push("respond-async".to_owned());
        }
        if let Some(wait) = wait {
            applied.push(format!("wait={}", wait.as_secs()));
        }
        let default = if sync && !respond_async { wait_max } else { Duration::ZERO };
        Self {
            wait: wait.unwrap_or(default),
            applied: (!applied.is_empty()).then(|| applied.join(", ")),
        }
    }

    pub(crate) fn to_header(&self) -> Option<HeaderValue> {
        self.applied.as_deref().and_then(|text| HeaderValue::from_str(text).ok())
    }

    pub(crate) fn applied_to(&self, mut response: Response) -> Response {
        if let Some(value) = self.to_header() {
            response.headers_mut().insert(PREFERENCE_APPLIED, value);
        }
        response
    }
}

/// Returns the first `wait`.
fn requested_wait(headers: &HeaderMap) -> Option<Duration> {
    let mut named = items(headers, PREFER).filter_map(|token| token.split_once('='));
    let (_, value) = named.find(|(name, _)| name.trim_end().eq_ignore_ascii_case("wait"))?;
    let seconds = u32::try_from(whole(value.trim().trim_matches('"'))?).ok()?;
    Some(Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str], mode: Option<&str>) -> (u64, Option<String>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, HeaderValue::from_static(value));
        }
        let query = Pairs(mode.map(|mode| ("mode".into(), mode.into())).into_iter().collect());
        let found = preference(&headers, query, Duration::from_mins(1)).unwrap();
        (found.wait.as_secs(), found.applied)
    }

    #[test]
    fn preferences_are_read_and_echoed() {
        let applied = |text: &str| Some(text.to_owned());
        assert_eq!(of(&[], None), (0, None));
        assert_eq!(of(&["wait=5"], None), (5, applied("wait=5")));
        assert_eq!(of(&["Wait = \"5\""], None), (5, applied("wait=5")));
        assert_eq!(of(&["wait=3600"], None), (60, applied("wait=60")));
        assert_eq!(of(&["respond-async"], None), (0, applied("respond-async")));
        let both = (5, applied("respond-async, wait=5"));
        assert_eq!(of(&["respond-async, wait=5"], None), both);
        assert_eq!(of(&["respond-async", "wait=5"], None), both);
        assert_eq!(of(&["wait=soon, handling=lenient"], None), (0, None));
    }

    #[test]
    fn mode_sync_waits_for_the_maximum_unless_prefer_is_given() {
        assert_eq!(of(&[], Some("sync")), (60, None));
        assert_eq!(of(&["wait=5"], Some("sync")).0, 5);
        assert_eq!(of(&[], Some("async")), (0, None));
    }
}
