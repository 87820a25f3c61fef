//! Submitting one job.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::Stream;
use longhaul::job::{Json, Record, Webhook};
use longhaul::store::StoreError;
use longhaul::{Engine, JobHandle, StagedPayload, Submission, SubmitError, Timestamp};
use longhaul_client::wire::{RetentionRequest, SubmitRequest};

use crate::api::AppState;
use crate::api::http::body;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::idempotency;
use crate::api::http::load_shedding::without_permit;
use crate::api::http::multipart::{Parts, PayloadPart, is_multipart};
use crate::api::http::openapi::{Accepted, SubmitHeaders, SubmitProblems};
use crate::api::http::params::Pairs;
use crate::api::http::prefer::{PREFERENCE_APPLIED, Preference, preference};
use crate::api::http::respond;
use crate::jobs::upload::{self, Announced, InProgress, too_large};
use crate::problem::{Code, Problem};
use crate::to_wire;

/// A submission in parts.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct SubmitForm {
    /// The submission; must come first.
    job: SubmitRequest,
    /// The payload, if there is one; may also be called `file`.
    #[schema(value_type = Option<String>, format = Binary, nullable = false)]
    payload: Option<Vec<u8>>,
}

/// Submit a job.
///
/// Answers 202 at once, or, if asked to wait, 200 with the result as soon as there is one. Under
/// an `Idempotency-Key` that is known, the existing job is answered and no new work is done.
///
/// With a payload, send `multipart/form-data`: first a part `job` with this JSON, then a part `payload`
/// or `file`.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "submitJob", tag = "jobs",
    params(SubmitHeaders),
    request_body(content((SubmitRequest = "application/json"), (SubmitForm = "multipart/form-data"))),
    responses(Accepted, SubmitProblems),
)]
pub(super) async fn submit_job(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    query: Pairs,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let preference = preference(&headers, query, state.settings.sync_wait_max)?;
    let key = idempotency::key(&headers, state.settings.require_idempotency_key)?;
    let bytes_max = body::submission_bytes_max(caller.engine.limits());
    if is_multipart(&headers) {
        let handle = submit_parts(&state, &caller, &headers, body, key).await?;
        return respond(&state, &caller, &headers, handle, &preference).await;
    }
    let text = body::json_text(&headers, body, bytes_max).await?;
    let mut request: SubmitRequest = body::object(&text)?;
    let webhook = webhook(&state, &caller.engine, &mut request).await?;
    let submission = submission(&caller.engine, request, webhook, key)?;
    let handle = state.load_shedder.watched(submission.into_future()).await?;
    respond(&state, &caller, &headers, handle, &preference).await
}

/// The job of a submission in parts: the job's description, then its payload.
async fn submit_parts(
    state: &AppState,
    caller: &Caller<Submit>,
    headers: &HeaderMap,
    body: Body,
    key: Option<String>,
) -> Result<JobHandle, Problem> {
    let engine = &caller.engine;
    let whole = Announced::of(headers, &body)?;
    // All parts together: what the others may have is small beside a payload.
    let most = engine.limits().payload_bytes_max.saturating_add(
        u64::try_from(body::submission_bytes_max(engine.limits())).unwrap_or(u64::MAX),
    );
    if whole.bytes.is_some_and(|bytes| bytes > most) {
        return Err(too_large(engine.limits().payload_bytes_max));
    }
    // Nothing of the body is known yet: a sender that waits need not send it for a key that is.
    if let (Some(key), true) = (&key, whole.waits)
        && let Some(known) = engine.find_by_key(key, None, None, None).await?
    {
        return Ok(known);
    }
    let mut parts = Parts::of(headers, body)?;
    let mut request = parts.job(body::submission_bytes_max(engine.limits())).await?;
    let webhook = webhook(state, engine, &mut request).await?;
    let part = parts.payload(&whole).await?;
    submit_whole(state, caller, request, webhook, key, part).await
}

/// The job of a request and the payload that came with it, if one did.
pub(crate) async fn submit_whole(
    state: &AppState,
    caller: &Caller<Submit>,
    request: SubmitRequest,
    webhook: Option<Webhook>,
    key: Option<String>,
    part: Option<PayloadPart>,
) -> Result<JobHandle, Problem> {
    let engine = &caller.engine;
    let Some(part) = part else {
        return Ok(submission(engine, request, webhook, key)?.await?);
    };
    let input = Json::from_value(&request.input).map_err(SubmitError::from)?;
    let (announced, name) = (part.announced.clone(), part.name.clone());
    let incoming = Incoming { announced, name, key: key.clone() };
    let kind = request.kind.clone();
    match incoming.receive(state, caller, &kind, &input, part.pieces()).await? {
        Received::Known(known) => Ok(*known),
        Received::Stored(stored) => {
            let (staged, _key) = *stored;
            Ok(submission(engine, request, webhook, key)?.payload(staged).await?)
        }
    }
}

/// Submit a job of this kind.
///
/// A JSON body is the input, a body of any other type the payload, and everything else is as the kind has it.
/// Made for curl. A payload whose key is known need not be sent again: with `Content-Digest` or `Expect:
/// 100-continue`, or with an empty body, the job is answered at once.
#[utoipa::path(
    post, path = "/v1/kinds/{kind}/jobs", operation_id = "submitInput", tag = "jobs",
    params(("kind" = String, Path, description = "Which handler runs it."), SubmitHeaders),
    request_body(
        content((serde_json::Value = "application/json"), (String = "application/octet-stream")),
        description = "The job's input, if it is JSON; its payload, if it has any other type.",
    ),
    responses(Accepted, SubmitProblems),
)]
pub(super) async fn submit_input(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    Path(kind): Path<String>,
    query: Pairs,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let preference = preference(&headers, query, state.settings.sync_wait_max)?;
    let key = idempotency::key(&headers, state.settings.require_idempotency_key)?;
    if headers.contains_key(CONTENT_TYPE) && !body::is_json(&headers) {
        let handle = submit_payload(&state, &caller, &kind, &headers, body, key).await?;
        return respond(&state, &caller, &headers, handle, &preference).await;
    }
    let bytes_max = body::submission_bytes_max(caller.engine.limits());
    let text = body::json_text(&headers, body, bytes_max).await?;
    body::refuse_doubled_keys(&text)?;
    let input = longhaul::job::Json::from_text(text)
        .map_err(|error| Problem::new(Code::InvalidJson, format!("the input is {error}")))?;
    state.caller_urls.check(&state.webhooks.client, &kind, || Some(input.clone())).await?;
    let submission = keyed(caller.engine.submit_raw(&kind, &input), key);
    let handle = state.load_shedder.watched(submission.into_future()).await?;
    respond(&state, &caller, &headers, handle, &preference).await
}

/// The job of a body that is all payload.
async fn submit_payload(
    state: &AppState,
    caller: &Caller<Submit>,
    kind: &str,
    headers: &HeaderMap,
    body: Body,
    key: Option<String>,
) -> Result<JobHandle, Problem> {
    if !body::is_plain(headers) {
        let detail = "send the body as it is, without a Content-Encoding";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let announced = Announced::of(headers, &body)?;
    let input = Json::null();
    if let (Some(key), true) = (&key, announced.need_not_be_sent()) {
        let digest = announced.digest.as_ref();
        if let Some(known) =
            caller.engine.find_by_key(key, Some(kind), Some(&input), digest).await?
        {
            return Ok(known);
        }
    }
    let incoming = Incoming { announced, name: None, key: key.clone() };
    match incoming.receive(state, caller, kind, &input, upload::pieces(body)).await? {
        Received::Known(known) => Ok(*known),
        Received::Stored(stored) => {
            let (staged, _key) = *stored;
            Ok(keyed(caller.engine.submit_raw(kind, &input), key).payload(staged).await?)
        }
    }
}

/// A payload that is about to come in.
pub(crate) struct Incoming {
    pub(crate) announced: Announced,
    pub(crate) name: Option<String>,
    pub(crate) key: Option<String>,
}

/// What became of it.
pub(crate) enum Received {
    /// It is stored, and its key is held until the job is submitted.
    Stored(Box<(StagedPayload, InProgress)>),
    /// It is the payload of a job that is there.
    Known(Box<JobHandle>),
}

impl Incoming {
    /// Stores the payload, or only compares it if its key is known.
    pub(crate) async fn receive(
        self,
        state: &AppState,
        caller: &Caller<Submit>,
        kind: &str,
        input: &Json,
        pieces: impl Stream<Item = Result<Bytes, Problem>>,
    ) -> Result<Received, Problem> {
        let engine = &caller.engine;
        engine.check_payload_kind(kind).await?;
        let guard = state.uploads.begin(engine.tenant(), self.key.as_deref())?;
        if let Some(key) = &self.key
            && engine.find_by_key(key, Some(kind), Some(input), None).await?.is_some()
        {
            let known = upload::compare(engine, &self.announced, key, kind, input, pieces).await?;
            // Deleted in this very moment: whoever asks again finds the key free.
            return known
                .map(|known| Received::Known(known.into()))
                .ok_or_else(|| StoreError::Gone.into());
        }
        let staged = upload::store(engine, &self.announced, self.name, pieces).await?;
        Ok(Received::Stored(Box::new((staged, guard))))
    }
}

/// Judges the URLs of a submission, and takes who is to be told out of it.
pub(crate) async fn webhook(
    state: &AppState,
    engine: &Engine,
    request: &mut SubmitRequest,
) -> Result<Option<Webhook>, Problem> {
    let input = || Json::from_value(&request.input).ok();
    state.caller_urls.check(&state.webhooks.client, &request.kind, input).await?;
    state.webhooks.asked(engine.tenant(), request.webhook.take()).await
}

/// From the wire to the engine.
pub(super) fn submission(
    engine: &Engine,
    request: SubmitRequest,
    webhook: Option<Webhook>,
    key: Option<String>,
) -> Result<Submission, Problem> {
    let mut submission = keyed(engine.submit_raw(&request.kind, &request.input), key);
    if let Some(webhook) = webhook {
        submission = submission.webhook(webhook);
    }
    match (request.run_at, request.delay) {
        (Some(_), Some(_)) => return Err(invalid("give runAt or delay, not both")),
        (Some(at), None) => {
            let at = Timestamp::parse(at.as_str())
                .ok_or_else(|| invalid(format!("runAt {:?} is not an RFC 3339 instant", at.0)))?;
            submission = submission.run_at(at);
        }
        (None, Some(delay)) => submission = submission.delay(delay.0),
        (None, None) => {}
    }
    if let Some(queue) = request.queue {
        submission = submission.queue(queue);
    }
    if let Some(priority) = request.priority {
        submission = submission.priority(priority);
    }
    if let Some(attempts) = request.max_attempts {
        submission = submission.max_attempts(attempts);
    }
    if let Some(timeout) = request.timeout {
        submission = submission.timeout(timeout.0);
    }
    for (name, value) in request.labels {
        submission = submission.label(name, value);
    }
    let RetentionRequest { completed, failed } = request.retention.unwrap_or_default();
    if let Some(kept) = completed {
        submission = submission.keep_completed(kept.0);
    }
    if let Some(kept) = failed {
        submission = submission.keep_failed(kept.0);
    }
    Ok(submission)
}

pub(crate) fn keyed(submission: Submission, key: Option<String>) -> Submission {
    match key {
        Some(key) => submission.key(key),
        None => submission,
    }
}

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::new(Code::Validation, detail)
}

async fn respond(
    state: &AppState,
    caller: &Caller<Submit>,
    headers: &HeaderMap,
    handle: JobHandle,
    preference: &Preference,
) -> Result<Response, Problem> {
    let mut record = held(state, &handle, preference.wait).await?;
    // The job was accepted, and its caller may know that; what became of it since then is for those alone
    // who still may ask.
    if !preference.wait.is_zero() && caller.standing(headers).lost().await.is_some() {
        record = handle.submitted().clone();
    }
    let mut response = respond::accepted(&to_wire::job(&caller.engine, &record)?);
    if let Some(applied) = preference.to_header() {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

/// The job once it has ended, or as it stands when the time is up or the server stops.
pub(crate) async fn held(
    state: &AppState,
    handle: &JobHandle,
    wait: Duration,
) -> Result<Record, Problem> {
    let submitted = handle.submitted();
    if wait.is_zero() || submitted.job.status.is_terminal() {
        return Ok(submitted.clone());
    }
    let ended = without_permit(async {
        tokio::select! {
            ended = handle.wait() => Some(ended),
            () = state.clock.sleep(wait) => None,
            () = state.stop.cancelled() => None,
        }
    });
    match ended.await {
        Some(ended) => Ok(ended?),
        None => Ok(handle.record().await?),
    }
}
