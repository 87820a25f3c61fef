//! Builds and sends the request of a job.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use longhaul::{Ctx, JobError};
use reqwest::{Body, Response};
use url::Url;

use super::call::{HttpCall, bad_input};
use super::headers::{self, HeaderField};
use super::sealed::{open_body, open_headers};
use super::{HttpKind, client_builder};
use longhaul_net::egress::SendError;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JOB_ID: HeaderName = HeaderName::from_static("longhaul-job-id");
const ATTEMPT: HeaderName = HeaderName::from_static("longhaul-attempt");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) struct PreparedRequest {
    pub(super) method: Method,
    url: RequestUrl,
    headers: HeaderMap,
    body: Body,
}

enum RequestUrl {
    Target(Url),
    /// Subject to the egress policy.
    Caller(String),
}

impl PreparedRequest {
    pub(super) async fn build(
        kind: &HttpKind,
        ctx: &Ctx,
        call: HttpCall,
    ) -> Result<Self, JobError> {
        let method = match &call.method {
            Some(name) => Method::try_from(name.as_str()).map_err(bad_input)?,
            None => kind.method.clone(),
        };
        let mut headers = headers::from_fields(&call.headers).map_err(bad_input)?;
        let url = if let Some(url) = &call.url {
            RequestUrl::Caller(caller_urls(kind, &call, url)?)
        } else {
            let target = kind.target.as_ref();
            let target = target.ok_or_else(|| bad_input("url is required"))?;
            let path = call.path.as_deref().unwrap_or_default();
            let url = target.at(path, call.query.as_deref());
            RequestUrl::Target(url.map_err(bad_input)?)
        };
        if let Some(sealed) = &call.sealed {
            let fields: Vec<HeaderField> =
                open_headers(kind.keyring.as_deref(), sealed, ctx.job())?;
            headers.extend(headers::from_fields(&fields).map_err(bad_input)?);
        }
        headers::remove_connection_headers(&mut headers);
        let body = match &call.sealed_body {
            Some(sealed) if call.body.is_none() && !ctx.job().has_payload => {
                Body::from(open_body(kind.keyring.as_deref(), sealed, ctx.job())?)
            }
            Some(_) => return Err(bad_input("body and sealedBody are mutually exclusive")),
            None => body(ctx, call.body, &mut headers).await?,
        };
        identify(ctx, &mut headers)?;
        // The operator's headers are for the target only, and override those of the job.
        if matches!(url, RequestUrl::Target(_)) {
            for name in kind.headers.keys() {
                headers.remove(name);
            }
            headers.extend(kind.headers.clone());
        }
        Ok(Self { method, url, headers, body })
    }

    /// Sends the request and returns once the response headers arrive.
    pub(super) async fn send(self, kind: &HttpKind) -> Result<Response, SendError> {
        let Self { method, url, headers, body } = self;
        match (url, &kind.caller_urls) {
            (RequestUrl::Target(url), _) => {
                let sent = kind
                    .http
                    .get(client_builder, None)?
                    .request(method, url)
                    .headers(headers)
                    .body(body)
                    .send();
                sent.await.map_err(|error| SendError::classify(&error, None))
            }
            (RequestUrl::Caller(url), Some(client)) => {
                client.open(&url, method, headers, body).await
            }
            // Rejected by `build`.
            (RequestUrl::Caller(_), None) => {
                Err(SendError::Protocol("caller URLs are not allowed".to_owned()))
            }
        }
    }
}

/// Returns the caller's URL, if the kind allows one.
fn caller_urls(kind: &HttpKind, call: &HttpCall, url: &str) -> Result<String, JobError> {
    if kind.caller_urls.is_none() {
        return Err(bad_input("this kind does not accept a url"));
    }
    let is_sealed = call.sealed.is_some() || call.sealed_body.is_some();
    if call.path.is_some() || call.query.is_some() || is_sealed {
        return Err(bad_input("url excludes path, query and sealed values"));
    }
    Ok(url.to_owned())
}

/// Returns the streamed payload, or else the body of the input.
async fn body(
    ctx: &Ctx,
    json: Option<Box<serde_json::value::RawValue>>,
    headers: &mut HeaderMap,
) -> Result<Body, JobError> {
    if !ctx.job().has_payload {
        let Some(json) = json else { return Ok(Body::default()) };
        headers.entry(CONTENT_TYPE).or_insert(JSON);
        return Ok(Body::from(Bytes::copy_from_slice(json.get().as_bytes())));
    }
    if json.is_some() {
        return Err(bad_input("payload and body are mutually exclusive"));
    }
    let payload = ctx.payload().await?;
    if let (false, Ok(content_type)) =
        (headers.contains_key(CONTENT_TYPE), HeaderValue::from_str(payload.content_type()))
    {
        headers.insert(CONTENT_TYPE, content_type);
    }
    // For servers that do not support chunked requests.
    headers.insert(http::header::CONTENT_LENGTH, payload.size().into());
    Ok(Body::wrap_stream(payload.read().await?))
}

/// Adds headers that identify the job, equal in all attempts except for the attempt number.
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
