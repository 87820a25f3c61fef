//! Errors in the words of Ollama and of `OpenAI`.

use axum::Json;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use longhaul::JobId;
use longhaul_kinds::chat::ChatApi;
use serde_json::{Value, json};

use crate::api::AppState;
use crate::api::http::routes::Routes;
use crate::auth;
use crate::problem::{Code, KeepBody, Problem};

/// Which job it is.
const LONGHAUL_JOB_ID: HeaderName = HeaderName::from_static("longhaul-job-id");
/// Tells the clients of `OpenAI` not to make another job for one that has used its attempts up.
const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Whose words are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// Ollama's, which are also those of `/jobs`.
    Ollama,
    /// Those of `OpenAI`.
    OpenAi,
}

impl ErrorFormat {
    pub(crate) fn of(api: ChatApi) -> Self {
        match api {
            ChatApi::OllamaChat | ChatApi::OllamaGenerate => Self::Ollama,
            ChatApi::OpenAiChat => Self::OpenAi,
        }
    }

    /// An error as its clients read it, in an answer of its own or in the middle of a stream.
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

    /// The same as a whole answer.
    pub(crate) fn refuse(self, status: u16, message: &str, code: Option<&str>) -> Response {
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
    let authenticate = from_fn_with_state(state.auth.clone(), auth::authenticate_compat);
    routes.into_router(state, |methods| {
        methods.layer(authenticate.clone()).layer(from_fn_with_state(format, convert_problem))
    })
}

/// Says in a tongue what was refused with a problem.
pub(crate) async fn convert_problem(
    State(tongue): State<ErrorFormat>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    // What is missing in the configuration is said as everything else of this server.
    let is_said = |problem: &Problem| ![Code::ChatOff, Code::RenderOff].contains(&problem.code());
    let problem =
        response.extensions().get::<Problem>().filter(|problem| is_said(problem)).cloned();
    let Some(problem) = problem else { return response };
    let status = problem.status();
    if status.is_server_error() {
        problem.log();
    }
    let code = problem.code().as_str();
    let mut said = tongue.refuse(status.as_u16(), problem.detail(), Some(code));
    response.extensions_mut().remove::<Problem>();
    said.headers_mut().extend(problem.headers().clone());
    said
}

/// Names the job in an answer.
pub(crate) fn named(mut response: Response, job: JobId) -> Response {
    if let Ok(id) = HeaderValue::from_str(&job.to_string()) {
        response.headers_mut().insert(LONGHAUL_JOB_ID, id);
    }
    response
}

/// Tells clients that asking again would not help.
pub(crate) const FOR_GOOD: (HeaderName, HeaderValue) =
    (X_SHOULD_RETRY, HeaderValue::from_static("false"));

/// The same of an answer.
pub(crate) fn for_good(mut response: Response) -> Response {
    response.headers_mut().extend([FOR_GOOD]);
    response
}
