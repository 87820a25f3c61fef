//! The kind `http`: an HTTP endpoint that is there already, made durable.
//!
//! # What is sent
//!
//! The job's input is the body, as JSON, or its payload is, streamed and with its own content type. An input
//! whose only key is `$request` says more:
//!
//! ```json
//! {"$request": {"method": "PUT", "path": "/7", "query": "draft=1", "headers": [["accept", "text/csv"]], "body": {}}}
//! ```
//!
//! `path` and `query` are appended to the target's own, and a path that could lead elsewhere fails the job.
//! With it go `Idempotency-Key` (the job's, or its id: the same in every attempt), `Longhaul-Job-Id`,
//! `Longhaul-Attempt`, and last the operator's own headers, which win. Redirects are answers, and no proxy of the
//! environment is asked.
//!
//! # What becomes of the answer
//!
//! 2xx and 3xx complete the job with `{"status", "headers", "body", "encoding"}`: JSON and text up to 64 KiB as
//! they are, everything else as the artifact `body`, which is never in memory as a whole. What is in
//! [`RetryOn`] is tried again, after `Retry-After` if the target says so; everything else fails at once. What
//! the target said to an attempt that failed is a step, `answer 1` and so on, so that it can be told.
//!
//! A target that failed five times in a row is left alone for 1 to 30 s, and then tried by one: jobs wait
//! meanwhile, and no attempt is charged.

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

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, Method};
use longhaul::blob::Keyring;
use longhaul::job::Json;
use longhaul::{Clock, Ctx, Kind};

pub use call::{HttpCall, idempotency_fields};
pub use headers::HeaderField;
use longhaul_net::circuit_breaker::CircuitBreaker;
use longhaul_net::egress::{self, SendError};
use longhaul_net::http_client;
pub use response::{
    BODY_ARTIFACT, BodyEncoding, INLINE_BYTES_MAX, StoredResponse, StoredResponseError,
};
pub use retry_on::{FailureClass, RetryOn, UnknownFailureClass};
pub use sealed::{seal_body, seal_headers};
pub use target::{PathError, TargetUrl, TargetUrlError, check_path};

/// The code of a job whose target answered with a failure: its last step has the answer.
pub const CODE_ERROR_STATUS: &str = "target-answered";
/// The code of a job whose target gave no answer.
pub const CODE_UNREACHABLE: &str = "target-unreachable";
/// The code of a job whose target gave no answer in time.
pub const CODE_TIMEOUT: &str = "target-timeout";
/// What the steps are called that keep answers to attempts that failed, before their number.
pub const RESPONSE_STEP: &str = "answer";

/// How long one attempt may take if nobody says.
const TIMEOUT: Duration = Duration::from_mins(30);
/// The engine gives an attempt up only well after this kind has.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);
/// Connections to a target that are kept for the next request.
const IDLE_PER_HOST_MAX: usize = 64;
/// Below the five seconds after which many servers close theirs, so that no request meets one just then.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Describes a kind whose jobs are requests to an endpoint.
///
/// ```
/// use longhaul_kinds::http::{HttpKind, TargetUrl};
///
/// let target = TargetUrl::parse("http://127.0.0.1:9000/report")?;
/// let report = HttpKind::new("report", target).build().concurrency(4);
/// # Ok::<(), longhaul_kinds::http::TargetUrlError>(())
/// ```
#[must_use = "describes a kind; `build` makes it"]
pub struct HttpKind {
    config: HttpConfig,
}

/// What attempts need to know.
struct HttpConfig {
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
    /// Made when first needed: reading the machine's certificates takes time and memory.
    http: OnceLock<reqwest::Client>,
}

impl HttpKind {
    /// A kind that sends its jobs there.
    pub fn new(name: impl Into<String>, target: TargetUrl) -> Self {
        Self::with(name, Some(target))
    }

    /// A kind that sends its jobs where their caller_urls say, as far as that client goes.
    pub fn to_caller_urls(name: impl Into<String>, client: egress::Client) -> Self {
        Self::with(name, None).caller_urls(client)
    }

    fn with(name: impl Into<String>, target: Option<TargetUrl>) -> Self {
        Self {
            config: HttpConfig {
                name: name.into(),
                target,
                method: Method::POST,
                headers: HeaderMap::new(),
                retry_on: RetryOn::default(),
                timeout: TIMEOUT,
                caller_urls: None,
                keyring: None,
                clock: Clock::system(),
                breaker: CircuitBreaker::default(),
                http: OnceLock::new(),
            },
        }
    }

    /// How it is asked, unless a job says otherwise; POST, if nobody says.
    pub fn method(mut self, method: Method) -> Self {
        self.config.method = method;
        self
    }

    /// Fields that are sent with every request to the target, instead of a job's own of the same names. No
    /// job, log or error has them.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.config.headers = headers;
        self
    }

    /// After which failures a request is sent again.
    pub fn retry_on(mut self, retry_on: RetryOn) -> Self {
        self.config.retry_on = retry_on;
        self
    }

    /// How long one attempt may take; 30 minutes if nobody says.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = timeout;
        self
    }

    /// Lets jobs name a URL of their own, as far as this client goes. What belongs to the target, such as its
    /// headers, is not sent there.
    pub fn caller_urls(mut self, client: egress::Client) -> Self {
        self.config.caller_urls = Some(client);
        self
    }

    /// What opens the fields that were [sealed](seal_headers) for a job.
    pub fn keyring(mut self, keyring: Arc<Keyring>) -> Self {
        self.config.keyring = Some(keyring);
        self
    }

    /// The time that requests are given up by.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.config.clock = clock;
        self
    }

    /// Makes the kind. Nobody is asked yet: a target that is not there fails the jobs that need it.
    pub fn build(self) -> Kind {
        let config = Arc::new(self.config);
        // Where it is, is not for everybody who lists kinds.
        let description = match &config.target {
            Some(_) => "asks an HTTP endpoint",
            None => "asks the URL in its input",
        };
        let (name, timeout) = (config.name.clone(), config.timeout);
        let run = move |ctx: Ctx, input: Json| attempt::run(Arc::clone(&config), ctx, input);
        Kind::new(&name, run)
            .timeout(timeout.saturating_add(TIMEOUT_MARGIN))
            .idempotency_fields(idempotency_fields)
            .description(description)
    }
}

/// Without fields, which may be secret.
impl std::fmt::Debug for HttpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpKind")
            .field("name", &self.config.name)
            .field("target", &self.config.target)
            .finish_non_exhaustive()
    }
}

impl HttpConfig {
    fn http(&self) -> Result<&reqwest::Client, SendError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let builder = || {
            let bare = http_client::bare().pool_idle_timeout(IDLE_TIMEOUT);
            bare.pool_max_idle_per_host(IDLE_PER_HOST_MAX)
        };
        let client = http_client::build(builder, None)?;
        Ok(self.http.get_or_init(|| client))
    }
}
