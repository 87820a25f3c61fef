//! Submitting one job.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use longhaul::JobHandle;
use longhaul::job::Json;
use longhaul_client::wire::SubmitRequest;

use crate::api::AppState;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::multipart::{MultipartBody, is_multipart};
use crate::api::http::openapi::{AcceptedJob, SubmitHeaders, SubmitProblems};
use crate::api::http::params::Pairs;
use crate::api::http::prefer::{Preference, preference};
use crate::api::http::{body, idempotency, respond};
use crate::jobs::submit::{
    IncomingPayload, submission, submit, submit_with_payload, take_webhook, with_key,
};
use crate::jobs::upload::{self, PayloadHeaders, too_large};
use crate::jobs::wait;
use crate::problem::{Code, Problem, Result};
use crate::to_wire;

#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct SubmitForm {
    /// The submission. Must be the first part.
    job: SubmitRequest,
    /// Optional payload; may also be named `file`.
    #[schema(value_type = Option<String>, format = Binary, nullable = false)]
    payload: Option<Vec<u8>>,
}

/// Submit a job.
///
/// Responds 202 at once, or, with `Prefer: wait` or `mode=sync`, 200 with the result when the job has finished. A
/// repeated submission with the same `Idempotency-Key` returns the existing job.
///
/// To send a payload, use `multipart/form-data`: first a part `job` with this JSON, then a part `payload` or
/// `file`.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "submitJob", tag = "jobs",
    params(SubmitHeaders),
    request_body(content((SubmitRequest = "application/json"), (SubmitForm = "multipart/form-data"))),
    responses(AcceptedJob, SubmitProblems),
)]
pub(super) async fn submit_job(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    query: Pairs,
    // Whole, because an extracted `HeaderMap` is a copy.
    request: Request,
) -> Result<Response> {
    let (Parts { headers, .. }, body) = request.into_parts();
    let preference = preference(&headers, query, state.settings.sync_wait_max)?;
    let key = idempotency::key(&headers, state.settings.require_idempotency_key)?;
    let handle = if is_multipart(&headers) {
        // Boxed, because the future of an upload would enlarge that of every submission.
        Box::pin(submit_parts(&state, &caller, &headers, body, key)).await?
    } else {
        let bytes_max = body::submission_bytes_max(caller.engine.limits());
        let mut request: SubmitRequest =
            body::object(&body::json_text(&headers, body, bytes_max).await?)?;
        let webhook = take_webhook(&state, &caller.engine, &mut request).await?;
        submit(&state, submission(&caller.engine, request, webhook, key)?).await?
    };
    respond(&state, &caller, &headers, handle, &preference).await
}

async fn submit_parts(
    state: &AppState,
    caller: &Caller<Submit>,
    headers: &HeaderMap,
    body: Body,
    key: Option<String>,
) -> Result<JobHandle> {
    let engine = &caller.engine;
    let whole = PayloadHeaders::parse(headers, &body)?;
    // Limit for all parts together.
    let bytes_max = engine.limits().payload_bytes_max.saturating_add(
        u64::try_from(body::submission_bytes_max(engine.limits())).unwrap_or(u64::MAX),
    );
    if whole.bytes.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(engine.limits().payload_bytes_max));
    }
    // A client that waits for `100 Continue` need not send the body if the key is in use.
    if let (Some(key), true) = (&key, whole.expects_continue)
        && let Some(existing) = engine.find_by_key(key, None, None, None).await?
    {
        return Ok(existing);
    }
    let mut parts = MultipartBody::of(headers, body)?;
    let mut request = parts.job(body::submission_bytes_max(engine.limits())).await?;
    let webhook = take_webhook(state, engine, &mut request).await?;
    let part = parts.payload(&whole).await?;
    submit_with_payload(state, caller, request, webhook, key, part).await
}

/// Submit a job of this kind.
///
/// A JSON body is the input; a body of any other type is the payload. All options have the kind's defaults.
/// Convenient for curl. A payload whose idempotency key is in use need not be sent again: with `Content-Digest`,
/// `Expect: 100-continue` or an empty body, the existing job is returned at once.
#[utoipa::path(
    post, path = "/v1/kinds/{kind}/jobs", operation_id = "submitInput", tag = "jobs",
    params(("kind" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description = "The job's kind."), SubmitHeaders),
    request_body(
        content((serde_json::Value = "application/json"), (String = "application/octet-stream")),
        description = "The input if it is JSON; the payload if it has any other type.",
    ),
    responses(AcceptedJob, SubmitProblems),
)]
pub(super) async fn submit_input(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    Path(kind): Path<String>,
    query: Pairs,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let preference = preference(&headers, query, state.settings.sync_wait_max)?;
    let key = idempotency::key(&headers, state.settings.require_idempotency_key)?;
    let handle = if headers.contains_key(CONTENT_TYPE) && !body::is_json(&headers) {
        Box::pin(submit_payload(&state, &caller, &kind, &headers, body, key)).await?
    } else {
        let bytes_max = body::submission_bytes_max(caller.engine.limits());
        let text = body::json_text(&headers, body, bytes_max).await?;
        body::reject_duplicate_keys(&text)?;
        let input = Json::from_text(text)
            .map_err(|error| Problem::new(Code::InvalidJson, format!("the input is {error}")))?;
        state.caller_urls.check(&state.webhooks.client, &kind, || Some(input.clone())).await?;
        submit(&state, with_key(caller.engine.submit_raw(&kind, &input), key)).await?
    };
    respond(&state, &caller, &headers, handle, &preference).await
}

async fn submit_payload(
    state: &AppState,
    caller: &Caller<Submit>,
    kind: &str,
    headers: &HeaderMap,
    body: Body,
    key: Option<String>,
) -> Result<JobHandle> {
    body::reject_encoded(headers)?;
    let payload = PayloadHeaders::parse(headers, &body)?;
    let input = Json::null();
    if let (Some(key), true) = (&key, payload.may_skip_body()) {
        let digest = payload.digest.as_ref();
        if let Some(existing) =
            caller.engine.find_by_key(key, Some(kind), Some(&input), digest).await?
        {
            return Ok(existing);
        }
    }
    let incoming = IncomingPayload { headers: payload, name: None, key: key.clone() };
    let submission = || Ok(with_key(caller.engine.submit_raw(kind, &input), key));
    incoming.submit(state, caller, kind, &input, upload::chunks(body), submission).await
}

async fn respond(
    state: &AppState,
    caller: &Caller<Submit>,
    headers: &HeaderMap,
    handle: JobHandle,
    preference: &Preference,
) -> Result<Response> {
    let job = if preference.wait.is_zero() {
        to_wire::job(&caller.engine, handle.submitted())?
    } else {
        let authorization = caller.authorization(headers);
        let finished = wait::for_finish(state, &handle, &authorization, preference.wait);
        to_wire::job(&caller.engine, &Box::pin(finished).await?)?
    };
    Ok(preference.applied_to(respond::accepted(&job)))
}
