//! From a job to the request that is sent for it.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use longhaul::{Ctx, JobError};
use reqwest::{Body, Response};
use url::Url;

use super::HttpConfig;
use super::call::{HttpCall, bad_input};
use super::headers::{self, HeaderField};
use super::sealed::{open_body, open_headers};
use longhaul_net::egress::SendError;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JOB_ID: HeaderName = HeaderName::from_static("longhaul-job-id");
const ATTEMPT: HeaderName = HeaderName::from_static("longhaul-attempt");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request that is ready to be sent.
pub(super) struct PreparedRequest {
    pub(super) method: Method,
    to: Destination,
    headers: HeaderMap,
    body: Body,
}

enum Destination {
    /// The operator's.
    TargetUrl(Url),
    /// A caller's: judged before it is dialled.
    Caller(String),
}

impl PreparedRequest {
    pub(super) async fn of(
        config: &HttpConfig,
        ctx: &Ctx,
        call: HttpCall,
    ) -> Result<Self, JobError> {
        let method = match &call.method {
            Some(name) => Method::try_from(name.as_str()).map_err(bad_input)?,
            None => config.method.clone(),
        };
        let mut headers = headers::read(&call.headers).map_err(bad_input)?;
        let to = if let Some(url) = &call.url {
            Destination::Caller(caller_urls(config, &call, url)?)
        } else {
            let target = config.target.as_ref();
            let target = target.ok_or_else(|| bad_input("it has to name a url"))?;
            let path = call.path.as_deref().unwrap_or_default();
            let url = target.at(path, call.query.as_deref());
            Destination::TargetUrl(url.map_err(bad_input)?)
        };
        if let Some(sealed) = &call.sealed {
            let fields: Vec<HeaderField> =
                open_headers(config.keyring.as_deref(), sealed, ctx.job())?;
            headers.extend(headers::read(&fields).map_err(bad_input)?);
        }
        headers::remove_connection_headers(&mut headers);
        let body = match &call.sealed_body {
            Some(sealed) if call.body.is_none() && !ctx.job().has_payload => {
                Body::from(open_body(config.keyring.as_deref(), sealed, ctx.job())?)
            }
            Some(_) => return Err(bad_input("it has a sealed body, and another one")),
            None => body(ctx, call.body, &mut headers).await?,
        };
        identify(ctx, &mut headers)?;
        // What the operator says is for the operator's own target, and wins there.
        if matches!(to, Destination::TargetUrl(_)) {
            for name in config.headers.keys() {
                headers.remove(name);
            }
            headers.extend(config.headers.clone());
        }
        Ok(Self { method, to, headers, body })
    }

    /// Sends it; the answer's head.
    pub(super) async fn send(self, config: &HttpConfig) -> Result<Response, SendError> {
        let Self { method, to, headers, body } = self;
        match (to, &config.caller_urls) {
            (Destination::TargetUrl(url), _) => {
                let sent = config.http()?.request(method, url).headers(headers).body(body).send();
                sent.await.map_err(|error| SendError::classify(&error, None))
            }
            (Destination::Caller(url), Some(client)) => {
                client.open(&url, method, headers, body).await
            }
            // Refused when the request was made.
            (Destination::Caller(_), None) => {
                Err(SendError::Protocol("caller_urls name no URLs".to_owned()))
            }
        }
    }
}

/// A URL that a caller gave, if that may be.
fn caller_urls(config: &HttpConfig, call: &HttpCall, url: &str) -> Result<String, JobError> {
    if config.caller_urls.is_none() {
        return Err(bad_input("this kind takes no url from caller_urls"));
    }
    let is_sealed = call.sealed.is_some() || call.sealed_body.is_some();
    if call.path.is_some() || call.query.is_some() || is_sealed {
        return Err(bad_input("beside a url there is no path, no query and nothing sealed"));
    }
    Ok(url.to_owned())
}

/// The payload, if there is one, streamed; else what the input says.
async fn body(
    ctx: &Ctx,
    given: Option<Box<serde_json::value::RawValue>>,
    headers: &mut HeaderMap,
) -> Result<Body, JobError> {
    if !ctx.job().has_payload {
        let Some(json) = given else { return Ok(Body::default()) };
        headers.entry(CONTENT_TYPE).or_insert(JSON);
        return Ok(Body::from(Bytes::copy_from_slice(json.get().as_bytes())));
    }
    if given.is_some() {
        return Err(bad_input("the job has a payload, which is the body, and another one"));
    }
    let payload = ctx.payload().await?;
    if let (false, Ok(given)) =
        (headers.contains_key(CONTENT_TYPE), HeaderValue::from_str(payload.content_type()))
    {
        headers.insert(CONTENT_TYPE, given);
    }
    // Servers that understand no chunks are told how much there is.
    headers.insert(http::header::CONTENT_LENGTH, payload.size().into());
    Ok(Body::wrap_stream(payload.read().await?))
}

/// Says whose request it is: the same in every attempt, so that a target can tell.
fn identify(ctx: &Ctx, headers: &mut HeaderMap) -> Result<(), JobError> {
    let job = ctx.job();
    let id = job.id.to_string();
    let key = job.idempotency_key.as_deref().unwrap_or(&id);
    for (name, text) in
        [(IDEMPOTENCY_KEY, key), (JOB_ID, &id), (ATTEMPT, &ctx.attempt().to_string())]
    {
        headers.insert(name, HeaderValue::from_str(text)?);
    }
    Ok(())
}
