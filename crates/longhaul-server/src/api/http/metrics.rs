//! Prometheus metrics.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longhaul::Timestamp;
use longhaul::store::QueueTotal;
use metrics::{Label, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use utoipa_axum::routes;

use super::caller::{Admin, Caller};
use super::load_shedding::Class;
use super::openapi::ReadProblems;
use super::routes::Routes;
use crate::api::AppState;
use crate::problem::{Problem, Result};

/// Histogram buckets in seconds: from a cached read to a request that waits for a minute.
const BUCKETS_S: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0];

/// Maximum number of queues with gauges of their own, because callers may create any number of queues.
const QUEUES_SHOWN_MAX: usize = 1_000;

/// The process's metrics recorder.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Returns the recorder of this process, installing it on first use. If the embedding program has
    /// installed its own recorder, this one stays empty.
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
                tracing::warn!(
                    "another metrics recorder is installed in this process; /metrics is incomplete"
                );
            }
            Self(handle)
        });
        metrics.clone()
    }

    /// Drains recorded samples. Without this or a reader of `/metrics`, histograms grow.
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

/// Read Prometheus metrics.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "operations",
    responses((status = 200, description = "Metrics in the Prometheus text format.", body = String, content_type = "text/plain"), ReadProblems),
)]
async fn show_to_admin(_: Caller<Admin>, state: State<AppState>) -> Result<Response> {
    show(state).await
}

/// Like [`show_to_admin`], without authentication.
pub(crate) async fn show(State(state): State<AppState>) -> Result<Response> {
    let mut text = state.metrics.0.render();
    // Not gauges of the recorder, because those would keep the last value of a deleted queue.
    let running = state.engine.running();
    // The other metrics matter most when the store is unavailable.
    let mut queues = state.engine.queue_totals(QUEUES_SHOWN_MAX).await.unwrap_or_default();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    let in_flight = state.load_shedder.in_flight();
    let now = state.engine.now();
    write_gauges(&mut text, running, in_flight, &queues, now).map_err(Problem::internal)?;
    let text_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(CONTENT_TYPE, text_type)], text).into_response())
}

/// Writes the gauges. Queue names need no escaping: they are letters, digits and `._-`.
fn write_gauges(
    text: &mut String,
    running: usize,
    in_flight: usize,
    queues: &[QueueTotal],
    now: Timestamp,
) -> std::fmt::Result {
    let heading = |text: &mut String, name: &str, help: &str| {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge")
    };
    heading(text, "longhaul_requests_in_flight", "Requests being processed.")?;
    writeln!(text, "longhaul_requests_in_flight {in_flight}")?;
    heading(text, "longhaul_jobs_running", "Jobs running in this process.")?;
    writeln!(text, "longhaul_jobs_running {running}")?;
    let help = "Pending and running jobs of a queue, over all tenants; the 1,000 longest queues.";
    heading(text, "longhaul_queue_jobs", help)?;
    for QueueTotal { name, pending, running, .. } in queues {
        writeln!(text, "longhaul_queue_jobs{{queue=\"{name}\",status=\"pending\"}} {pending}")?;
        writeln!(text, "longhaul_queue_jobs{{queue=\"{name}\",status=\"running\"}} {running}")?;
    }
    heading(text, "longhaul_queue_paused", "Number of tenants that paused the queue.")?;
    for QueueTotal { name, paused, .. } in queues {
        writeln!(text, "longhaul_queue_paused{{queue=\"{name}\"}} {paused}")?;
    }
    let help = "Time for which the oldest due job of a queue has been due; 0 without one.";
    heading(text, "longhaul_queue_oldest_due_seconds", help)?;
    for QueueTotal { name, oldest_due_at, .. } in queues {
        let seconds = oldest_due_at.map_or(0.0, |at| now.since(at).as_secs_f64());
        writeln!(text, "longhaul_queue_oldest_due_seconds{{queue=\"{name}\"}} {seconds}")?;
    }
    Ok(())
}

/// Records request durations by route, not by path, because ids in labels would create a series per job.
pub(crate) async fn measure(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    let labels = vec![
        Label::from_static_parts("method", method),
        Label::new("route", route.map_or(SharedString::const_str("none"), SharedString::from)),
        Label::new("status", response.status().as_str().to_owned()),
    ];
    metrics::histogram!("longhaul_http_request_seconds", labels).record(started.elapsed());
    response
}

/// Maps unknown methods to `other`, because each would create a series.
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
