//! The kind `http`: sends a durable request to an HTTP endpoint.
//!
//! # Request
//!
//! The job's input is the JSON body, or its payload is the body, streamed with its content type. An input whose only
//! key is `$request` specifies more:
//!
//! ```json
//! {"$request": {"method": "PUT", "path": "/7", "query": "draft=1", "headers": [["accept", "text/csv"]], "body": {}}}
//! ```
//!
//! `path` and `query` are appended to those of the target; a path that could leave the target fails the job. The request
//! carries `Idempotency-Key` (that of the job, or the job's id: the same in every attempt), `Longhaul-Job-Id`,
//! `Longhaul-Attempt`, and the operator's headers, which override those of the job. Redirects are not followed, and
//! proxies from the environment are ignored.
//!
//! # Response
//!
//! 2xx and 3xx complete the job with `{"status", "headers", "body", "encoding"}`. JSON and text up to 64 KiB are inlined,
//! other bodies become the artifact `body` without ever being in memory as a whole. Failures in [`RetryOn`] are retried,
//! after `Retry-After` if the target sends one; other failures are final. The response to a failed attempt is stored as
//! a step (`answer 1` and so on), so that clients can read it.
//!
//! A circuit breaker opens after five consecutive failures of the target, for 1 s to 30 s. Jobs wait meanwhile without
//! using an attempt.

mod attempt;
mod call;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub mod headers;
mod request;
mod response;
mod response_body;
mod retry_on;
mod sealed;
mod target;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use longhaul::blob::Keyring;
use longhaul::job::Json;
use longhaul::{Clock, Ctx, Kind};

pub use call::{HttpCall, idempotency_fields};
pub use headers::HeaderField;
use longhaul_net::circuit_breaker::CircuitBreaker;
use longhaul_net::egress;
use longhaul_net::http_client::{self, LazyClient};
pub use response::{
    BODY_ARTIFACT, BodyEncoding, INLINE_BYTES_MAX, StoredResponse, StoredResponseError,
};
pub use retry_on::{FailureClass, RetryOn, UnknownFailureClass};
pub use sealed::{seal_body, seal_headers};
pub use target::{TargetPathError, TargetUrl, TargetUrlError, check_path};

/// Error code of a job whose target responded with an error status. Its last step has the response.
pub const CODE_ERROR_STATUS: &str = "target-answered";
/// Error code of a job whose target did not respond.
pub const CODE_UNREACHABLE: &str = "target-unreachable";
/// Error code of a job whose target did not respond in time.
pub const CODE_TIMEOUT: &str = "target-timeout";
/// Name of the steps that store responses of failed attempts, in front of their number.
pub const RESPONSE_STEP: &str = "answer";

const TIMEOUT_DEFAULT: Duration = Duration::from_mins(30);
/// Time that the engine's timeout exceeds that of a request, so that this kind's own error wins.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);
/// Idle connections per target.
const IDLE_PER_HOST_MAX: usize = 64;
/// Below the 5 s after which many servers close idle connections, so that no request hits a closing one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Builder of a kind whose jobs are HTTP requests.
///
/// ```
/// use longhaul_kinds::http::{HttpKind, TargetUrl};
///
/// let target = TargetUrl::parse("http://127.0.0.1:9000/report")?;
/// let report = HttpKind::new("report", target).build().concurrency(4);
/// # Ok::<(), longhaul_kinds::http::TargetUrlError>(())
/// ```
#[must_use = "call `build` to create the kind"]
pub struct HttpKind {
    name: String,
    target: Option<TargetUrl>,
    method: Method,
    headers: HeaderMap,
    retry_on: RetryOn,
    timeout: Duration,
    caller_urls: Option<egress::Client>,
    keyring: Option<Arc<Keyring>>,
    clock: Clock,
    breaker: CircuitBreaker,
    http: LazyClient,
}

impl HttpKind {
    pub fn new(name: impl Into<String>, target: TargetUrl) -> Self {
        Self::with(name, Some(target))
    }

    /// Sends requests to the URLs in the jobs' inputs, within the client's egress policy.
    pub fn to_caller_urls(name: impl Into<String>, client: egress::Client) -> Self {
        Self::with(name, None).caller_urls(client)
    }

    fn with(name: impl Into<String>, target: Option<TargetUrl>) -> Self {
        Self {
            name: name.into(),
            target,
            method: Method::POST,
            headers: HeaderMap::new(),
            retry_on: RetryOn::default(),
            timeout: TIMEOUT_DEFAULT,
            caller_urls: None,
            keyring: None,
            clock: Clock::system(),
            breaker: CircuitBreaker::default(),
            http: LazyClient::default(),
        }
    }

    /// Sets the default method. Defaults to POST.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Sets headers for every request to the target. They override headers of a job and are in no job, log or
    /// error.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    pub fn retry_on(mut self, retry_on: RetryOn) -> Self {
        self.retry_on = retry_on;
        self
    }

    /// Sets the timeout of one attempt. Defaults to 30 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Allows jobs to specify a URL, within the client's egress policy. The target's headers are not sent there.
    pub fn caller_urls(mut self, client: egress::Client) -> Self {
        self.caller_urls = Some(client);
        self
    }

    /// Sets the keyring for [sealed](seal_headers) headers and bodies.
    pub fn keyring(mut self, keyring: Arc<Keyring>) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// Sets the clock for timeouts and the circuit breaker.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Creates the kind. Does not connect: an unreachable target fails the jobs that need it.
    pub fn build(self) -> Kind {
        // The URL is not visible to callers who list kinds.
        let description = match &self.target {
            Some(_) => "sends a request to an HTTP endpoint",
            None => "sends a request to the URL in its input",
        };
        let (name, timeout) = (self.name.clone(), self.timeout);
        let kind = Arc::new(self);
        let run = move |ctx: Ctx, input: Json| attempt::run(Arc::clone(&kind), ctx, input);
        Kind::new(&name, run)
            .timeout(timeout.saturating_add(TIMEOUT_MARGIN))
            .idempotency_fields(idempotency_fields)
            .description(description)
    }
}

/// Omits headers, which may be secret.
impl std::fmt::Debug for HttpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpKind")
            .field("name", &self.name)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

fn client_builder() -> reqwest::ClientBuilder {
    let bare = http_client::bare().pool_idle_timeout(IDLE_TIMEOUT);
    bare.pool_max_idle_per_host(IDLE_PER_HOST_MAX)
}
