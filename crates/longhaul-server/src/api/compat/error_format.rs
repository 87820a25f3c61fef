//! Error formats of Ollama and `OpenAI`.

use axum::Json;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use longhaul::JobId;
use longhaul_kinds::chat::{ChatApi, TargetApi};
use serde_json::{Value, json};

use crate::api::AppState;
use crate::api::http::respond::set_header;
use crate::api::http::routes::Routes;
use crate::auth;
use crate::problem::{Code, KeepBody, Problem};

const LONGHAUL_JOB_ID: HeaderName = HeaderName::from_static("longhaul-job-id");
/// Stops `OpenAI`'s clients from retrying, because a retry would submit another job.
const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// Also used by `/jobs` and `/render`.
    Ollama,
    OpenAi,
}

impl ErrorFormat {
    pub(crate) fn of(api: ChatApi) -> Self {
        match api.target_api() {
            TargetApi::Ollama => Self::Ollama,
            TargetApi::OpenAi => Self::OpenAi,
        }
    }

    /// Formats an error, for a response or for the middle of a stream.
    pub(crate) fn error(self, status: u16, message: &str, code: Option<&str>) -> Value {
        match self {
            Self::Ollama => json!({"error": message}),
            Self::OpenAi => {
                let kind = match status {
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    429 => "rate_limit_error",
                    400..500 => "invalid_request_error",
                    _ => "server_error",
                };
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
        }
    }

    pub(crate) fn respond(self, status: u16, message: &str, code: Option<&str>) -> Response {
        let body = self.error(status, message, code);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(KeepBody);
        response
    }
}

/// Builds a compatibility API's router: authenticates callers and converts problems to the format.
pub(crate) fn with_error_format(
    routes: Routes,
    format: ErrorFormat,
    state: &AppState,
) -> Router<AppState> {
    let authenticate = from_fn_with_state(state.auth.clone(), auth::authenticate);
    routes.into_router(state, (from_fn_with_state(format, convert_problem), authenticate))
}

/// Middleware that converts problems to the format.
pub(crate) async fn convert_problem(
    State(format): State<ErrorFormat>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    // A missing configuration is reported as a problem.
    let is_converted =
        |problem: &Problem| ![Code::ChatOff, Code::RenderOff].contains(&problem.code());
    let problem =
        response.extensions().get::<Problem>().filter(|problem| is_converted(problem)).cloned();
    let Some(problem) = problem else { return response };
    let status = problem.status();
    if status.is_server_error() {
        problem.log();
    }
    let code = problem.code().as_str();
    let mut converted = format.respond(status.as_u16(), problem.detail(), Some(code));
    response.extensions_mut().remove::<Problem>();
    converted.headers_mut().extend(problem.headers().clone());
    converted
}

pub(crate) fn with_job_id(mut response: Response, job: JobId) -> Response {
    set_header(&mut response, LONGHAUL_JOB_ID, &job.to_string());
    response
}

/// Header that marks a response as not retryable.
pub(crate) const NOT_RETRYABLE: (HeaderName, HeaderValue) =
    (X_SHOULD_RETRY, HeaderValue::from_static("false"));
pub(crate) fn not_retryable(mut response: Response) -> Response {
    response.headers_mut().extend([NOT_RETRYABLE]);
    response
}
