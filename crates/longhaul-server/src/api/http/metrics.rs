//! What Prometheus reads.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longhaul::store::QueueState;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use utoipa_axum::routes;

use super::caller::{Admin, Caller};
use super::load_shedding::Class;
use super::openapi::ReadProblems;
use super::routes::Routes;
use crate::api::AppState;
use crate::problem::Problem;

/// Bounds of all durations, in seconds: from a cached read to a request held for a minute.
const BUCKETS_S: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0];

/// Where the process's metrics are collected.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// The one recorder of this process, installed on first use. Where a program that embeds this
    /// server has a recorder of its own, ours stays empty.
    pub fn installed() -> Self {
        static INSTALLED: OnceLock<Metrics> = OnceLock::new();
        let metrics = INSTALLED.get_or_init(|| {
            let builder = PrometheusBuilder::new();
            // Errs only without buckets.
            let builder =
                builder.set_buckets(&BUCKETS_S).unwrap_or_else(|_| PrometheusBuilder::new());
            let recorder = builder.build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("this process has another metrics recorder: /metrics shows little");
            }
            Self(handle)
        });
        metrics.clone()
    }

    /// Puts away what was recorded. Without this, or somebody who reads them, histograms grow.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

pub(crate) fn router() -> Routes {
    Routes::new().route::<Admin>(Class::Vital, routes!(show_to_admin))
}

/// What Prometheus reads.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "operations",
    responses((status = 200, description = "In Prometheus's text format.", body = String, content_type = "text/plain"), ReadProblems),
)]
async fn show_to_admin(_: Caller<Admin>, state: State<AppState>) -> Result<Response, Problem> {
    show(state).await
}

/// As [`show_to_admin`], where nobody asks who calls.
pub(crate) async fn show(State(state): State<AppState>) -> Result<Response, Problem> {
    let mut text = state.metrics.0.render();
    // Read now and written by hand: a gauge in the recorder would go on showing the last count of
    // a queue that is gone.
    let running = state.engine.running();
    // The operator needs the rest most when the store does not answer.
    let queues = state.engine.queues().await.unwrap_or_default();
    let in_flight = state.load_shedder.in_flight();
    now(&mut text, running, in_flight, &queues).map_err(Problem::internal)?;
    let text_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(CONTENT_TYPE, text_type)], text).into_response())
}

/// Names of queues need no escaping: they are letters, digits and `._-`.
fn now(
    text: &mut String,
    running: usize,
    in_flight: usize,
    queues: &[QueueState],
) -> std::fmt::Result {
    writeln!(text, "# HELP longhaul_requests_in_flight Requests that are being answered.")?;
    writeln!(text, "# TYPE longhaul_requests_in_flight gauge")?;
    writeln!(text, "longhaul_requests_in_flight {in_flight}")?;
    writeln!(text, "# HELP longhaul_jobs_running Jobs that this process runs.")?;
    writeln!(text, "# TYPE longhaul_jobs_running gauge\nlonghaul_jobs_running {running}")?;
    writeln!(text, "# HELP longhaul_queue_jobs Unfinished jobs of a queue.")?;
    writeln!(text, "# TYPE longhaul_queue_jobs gauge")?;
    for QueueState { name, pending, running, .. } in queues {
        writeln!(text, "longhaul_queue_jobs{{queue=\"{name}\",status=\"pending\"}} {pending}")?;
        writeln!(text, "longhaul_queue_jobs{{queue=\"{name}\",status=\"running\"}} {running}")?;
    }
    writeln!(text, "# HELP longhaul_queue_paused Whether a queue's jobs are held back.")?;
    writeln!(text, "# TYPE longhaul_queue_paused gauge")?;
    for QueueState { name, paused, .. } in queues {
        writeln!(text, "longhaul_queue_paused{{queue=\"{name}\"}} {}", u8::from(*paused))?;
    }
    Ok(())
}

/// Measures requests by route, never by path: ids in labels would make a series per job.
pub(crate) async fn measure(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    let labels = [
        ("method", method.to_owned()),
        ("route", route.unwrap_or_else(|| "none".to_owned())),
        ("status", response.status().as_str().to_owned()),
    ];
    metrics::histogram!("longhaul_http_request_seconds", &labels).record(started.elapsed());
    response
}

/// A method is any word that a caller likes, and each would make a series.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        "CONNECT" => "CONNECT",
        "TRACE" => "TRACE",
        _ => "other",
    }
}
