//! HTTP client that enforces the egress policy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, Method};
use reqwest::{Body, Certificate, Response};
use tokio::time::Instant;

use super::error::SendError;
use super::policy::{CheckedUrl, Policy, Reach, UrlDenied};
use super::resolve::{PolicyResolver, Resolver, SystemResolver};
use super::response::{EgressResponse, RetryAfter};
use crate::http_client::{self, LazyClient};

/// Default of [`EgressRequest::body_prefix_max`].
pub const BODY_PREFIX_DEFAULT: usize = 1 << 10;

/// Bytes of a response body that are read, so that the connection can be reused. Closing it is cheaper
/// beyond that.
const BODY_BYTES_MAX: usize = 64 << 10;
/// DNS timeout while a caller waits for its submission.
const SUBMISSION_LOOKUP: Duration = Duration::from_secs(1);
/// Few, because there are many hosts with few requests each.
const IDLE_PER_HOST_MAX: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Client for URLs that callers name. Clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    policy: Policy,
    resolver: Arc<dyn Resolver>,
    /// Root certificates in place of the system's, for tests.
    roots: Option<Vec<Certificate>>,
    to_public: LazyClient,
    to_allowed: LazyClient,
}

pub struct EgressRequest {
    /// Checked against the policy, even if it was checked before.
    pub url: String,
    pub method: Method,
    /// Headers that belong to the connection, such as `Host`, are removed.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Total time to resolve, connect, send and read.
    pub timeout: Duration,
    /// Bytes of the response body to return, up to 64 KiB. See [`BODY_PREFIX_DEFAULT`].
    pub body_prefix_max: usize,
}

impl Client {
    /// Creates a client with the system's resolver.
    pub fn new(policy: Policy) -> Self {
        Self::build(policy, Arc::new(SystemResolver::default()), None)
    }

    pub(super) fn build(
        policy: Policy,
        resolver: Arc<dyn Resolver>,
        roots: Option<Vec<Certificate>>,
    ) -> Self {
        let (to_public, to_allowed) = (LazyClient::default(), LazyClient::default());
        Self(Arc::new(Inner { policy, resolver, roots, to_public, to_allowed }))
    }

    /// Checks a URL at submission, including the addresses of its name. Accepts a name that does not
    /// resolve now, because it is checked again for every connection.
    pub async fn check_submission(&self, url: &str) -> Result<CheckedUrl, UrlDenied> {
        let url = self.0.policy.check_url(url)?;
        if let Some(name) = url.name() {
            let lookup = tokio::time::timeout(SUBMISSION_LOOKUP, self.0.resolver.resolve(name));
            let found = lookup.await.ok().and_then(Result::ok).unwrap_or_default();
            if let Some(deny_reason) = self.0.policy.deny_reason_of_any(&found, url.reach()) {
                return Err(url.denied(deny_reason));
            }
        }
        Ok(url)
    }

    /// Sends a request within its timeout. A response whose headers arrive in time counts, with as much
    /// of its body as arrived.
    pub async fn send(&self, request: EgressRequest) -> Result<EgressResponse, SendError> {
        let EgressRequest { url, method, headers, body, timeout, body_prefix_max } = request;
        let started = Instant::now();
        let mut deadline = std::pin::pin!(tokio::time::sleep(timeout));
        let mut response = tokio::select! {
            biased;
            sent = self.open(&url, method, headers, body.into()) => sent?,
            () = &mut deadline => return Err(SendError::TimedOut),
        };
        let latency = started.elapsed();
        let (mut body_prefix, mut bytes_read) = (Vec::new(), 0);
        // Ignores a failing connection, because the status has arrived.
        let read = async {
            while bytes_read <= BODY_BYTES_MAX
                && let Ok(Some(chunk)) = response.chunk().await
            {
                let room = body_prefix_max.min(BODY_BYTES_MAX).saturating_sub(body_prefix.len());
                body_prefix.extend(chunk.iter().take(room));
                bytes_read += chunk.len();
            }
        };
        tokio::select! {
            biased;
            () = read => {}
            () = &mut deadline => {}
        }
        let headers = std::mem::take(response.headers_mut());
        Ok(EgressResponse {
            status: response.status(),
            retry_after: RetryAfter::from_headers(&headers),
            headers,
            body_prefix: body_prefix.into(),
            latency,
        })
    }

    /// Sends a streamed request and returns the response as soon as its headers arrive. The caller
    /// applies its own timeout.
    pub async fn open(
        &self,
        url: &str,
        method: Method,
        mut headers: HeaderMap,
        body: Body,
    ) -> Result<Response, SendError> {
        let url = self.0.policy.check_url(url)?;
        let http = self.0.http(url.reach())?;
        remove_connection_headers(&mut headers);
        let sent = http.request(method, url.url().clone()).headers(headers).body(body).send();
        sent.await.map_err(|error| SendError::classify(&error, Some(&url)))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

/// Omits URL, headers and body, which may be secret.
impl fmt::Debug for EgressRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressRequest")
            .field("method", &self.method)
            .field("bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn http(&self, reach: Reach) -> Result<&reqwest::Client, SendError> {
        let client = match reach {
            Reach::Public => &self.to_public,
            Reach::Allowed => &self.to_allowed,
        };
        client.get(|| self.builder(reach), self.roots.as_deref())
    }

    fn builder(&self, reach: Reach) -> reqwest::ClientBuilder {
        let Self { policy, resolver, .. } = self;
        let (policy, resolver) = (policy.clone(), Arc::clone(resolver));
        http_client::bare()
            .dns_resolver(PolicyResolver { policy, resolver, reach })
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
    }
}

/// Removes headers that the HTTP client sets itself. A foreign `Host` could select another site behind
/// the same address.
fn remove_connection_headers(headers: &mut HeaderMap) {
    const CONNECTION_HEADERS: [HeaderName; 7] =
        [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER, UPGRADE];
    for name in CONNECTION_HEADERS {
        headers.remove(name);
    }
}
