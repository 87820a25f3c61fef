//! Sends what callers asked for to where they asked, if this server may go there.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, Method};
use reqwest::{Body, Certificate, Response};
use tokio::time::Instant;

use super::error::SendError;
use super::policy::{CheckedUrl, Policy, Reach, UrlDenied, UrlHost};
use super::resolve::{PolicyResolver, Resolver, SystemResolver};
use super::response::{EgressResponse, RetryAfter};
use crate::http_client;

/// Bytes of an answer's body that are kept unless somebody wants more.
pub const BODY_PREFIX_DEFAULT: usize = 1 << 10;

/// Bytes of an answer's body that are read. Those that are not kept are read so that the connection can be
/// used again; beyond, closing it is cheaper.
const BODY_BYTES_MAX: usize = 64 << 10;
/// For a name to be resolved while its submitter waits.
const SUBMISSION_LOOKUP: Duration = Duration::from_secs(1);
/// Receivers are many and each is called seldom.
const IDLE_PER_HOST_MAX: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The client of everything that callers name. Clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    policy: Policy,
    resolver: Arc<dyn Resolver>,
    /// Instead of the machine's.
    roots: Option<Vec<Certificate>>,
    /// Made when first needed: most servers send nothing, and reading the machine's certificates takes
    /// time and memory.
    to_public: OnceLock<reqwest::Client>,
    to_allowed: OnceLock<reqwest::Client>,
}

/// A request.
pub struct EgressRequest {
    /// Judged anew, whatever was found when it was taken.
    pub url: String,
    /// What to do there.
    pub method: Method,
    /// Fields beside those that belong to the connection, which are left out: the host is the URL's.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// For all of it: resolving, connecting, sending and reading.
    pub timeout: Duration,
    /// Bytes of the answer's body to keep, up to 64 KiB; see [`BODY_PREFIX_DEFAULT`].
    pub body_prefix_max: usize,
}

impl Client {
    /// A client that resolves as the machine does. Nothing is read or sent yet.
    pub fn new(policy: Policy) -> Self {
        Self::with_resolver(policy, Arc::new(SystemResolver::default()))
    }

    /// A client that resolves in its own way.
    pub fn with_resolver(policy: Policy, resolver: Arc<dyn Resolver>) -> Self {
        Self::build(policy, resolver, None)
    }

    pub(super) fn build(
        policy: Policy,
        resolver: Arc<dyn Resolver>,
        roots: Option<Vec<Certificate>>,
    ) -> Self {
        let (to_public, to_allowed) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Inner { policy, resolver, roots, to_public, to_allowed }))
    }

    /// What it goes by.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Tells a submitter at once that a URL will never be reached. A name that cannot be resolved now is not
    /// denied: it may be later, and it is judged when it is dialled.
    pub async fn check_submission(&self, url: &str) -> Result<CheckedUrl, UrlDenied> {
        let target = self.0.policy.check_url(url)?;
        if let UrlHost::Name(name) = target.host() {
            let lookup = tokio::time::timeout(SUBMISSION_LOOKUP, self.0.resolver.resolve(name));
            let found = lookup.await.ok().and_then(Result::ok).unwrap_or_default();
            if let Some(deny_reason) = self.0.policy.deny_reason_of_any(&found, target.reach()) {
                return Err(target.denied(deny_reason));
            }
        }
        Ok(target)
    }

    /// Sends a request and returns what was answered. It takes no longer than the request's timeout: an
    /// answer whose head came in time counts, with as much of its body as came too.
    pub async fn send(&self, request: EgressRequest) -> Result<EgressResponse, SendError> {
        let EgressRequest { url, method, mut headers, body, timeout, body_prefix_max } = request;
        let target = self.0.policy.check_url(&url)?;
        let http = self.0.http(target.reach())?;
        drop_connections_own(&mut headers);
        let began = Instant::now();
        let mut end = std::pin::pin!(tokio::time::sleep(timeout));
        let sent = http.request(method, target.url().clone()).headers(headers).body(body).send();
        let mut response = tokio::select! {
            biased;
            sent = sent => sent.map_err(|error| SendError::classify(&error, Some(&target)))?,
            () = &mut end => return Err(SendError::TimedOut),
        };
        let latency = began.elapsed();
        let mut prefix = Prefix { kept: Vec::new(), max: body_prefix_max.min(BODY_BYTES_MAX) };
        tokio::select! {
            biased;
            () = prefix.read(&mut response) => {}
            () = &mut end => {}
        }
        let headers = std::mem::take(response.headers_mut());
        Ok(EgressResponse {
            status: response.status(),
            retry_after: RetryAfter::from_headers(&headers),
            headers,
            body_prefix: prefix.kept.into(),
            latency,
        })
    }

    /// Sends a request whose bodies are streams, and returns as soon as the answer's head is there. How long
    /// that may take is for the caller to say.
    pub async fn open(
        &self,
        url: &str,
        method: Method,
        mut headers: HeaderMap,
        body: Body,
    ) -> Result<Response, SendError> {
        let target = self.0.policy.check_url(url)?;
        let http = self.0.http(target.reach())?;
        drop_connections_own(&mut headers);
        let sent = http.request(method, target.url().clone()).headers(headers).body(body).send();
        sent.await.map_err(|error| SendError::classify(&error, Some(&target)))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

/// Without URL, fields and body, each of which may be secret.
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
        let made = match reach {
            Reach::Public => &self.to_public,
            Reach::Allowed => &self.to_allowed,
        };
        if let Some(client) = made.get() {
            return Ok(client);
        }
        let client = http_client::build(|| self.builder(reach), self.roots.as_deref())?;
        Ok(made.get_or_init(|| client))
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

/// The beginning of a body, which stays when reading is given up.
struct Prefix {
    kept: Vec<u8>,
    max: usize,
}

impl Prefix {
    /// Until the body's end, its limit or the connection's failure: the status has come, and it is what
    /// counts.
    async fn read(&mut self, response: &mut Response) {
        let mut read = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = self.max.saturating_sub(self.kept.len());
            self.kept.extend(chunk.iter().take(room));
            read += chunk.len();
            if read > BODY_BYTES_MAX {
                return;
            }
        }
    }
}

/// A foreign host would be another's site behind the same address; lengths and the like are the HTTP
/// client's to say.
fn drop_connections_own(headers: &mut HeaderMap) {
    const OWN: [HeaderName; 7] =
        [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER, UPGRADE];
    for name in OWN {
        headers.remove(name);
    }
}
