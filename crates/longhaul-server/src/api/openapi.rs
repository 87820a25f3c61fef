//! The `OpenAPI` 3.1 document: what all operations share. Each operation is described where it is
//! served.

mod params;
mod responses;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use longhaul_client::wire;
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{PathItem, RefOr, ServerBuilder};

pub(super) use params::{ListParams, PathOfJob, SubmitHeaders, UsageParams};
pub(super) use responses::{
    Accepted, ArtifactProblems, BatchProblems, BulkProblems, ChangeProblems, EventStream,
    ForkProblems, JobAskedProblems, JobProblems, JobStated, JobUnchanged, ListProblems,
    QueueProblems, ReadProblems, ReceiptProblems, ResultProblems, SubmitProblems, Unready,
};

use super::AppState;

/// The part of the document that belongs to no operation.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Longhaul",
        description = "Durable jobs over HTTP: submit once, get an id in milliseconds, fetch the result whenever.\n\nEvery answer carries `X-Request-Id`; every error is `application/problem+json` with a stable `code`.",
    ),
    tags(
        (name = "jobs", description = "Submit, read, watch and change jobs."),
        (name = "kinds", description = "What can be run."),
        (name = "queues", description = "Where jobs wait."),
        (name = "usage", description = "What finished jobs used."),
        (name = "operations", description = "For whoever runs the server."),
    ),
    components(schemas(wire::BatchJob, wire::Job, wire::Problem)),
)]
pub(super) struct Document;

/// Adds what every operation has: the request's id on each answer, and this server's address.
pub(super) fn complete(document: &mut utoipa::openapi::OpenApi) {
    let here = ServerBuilder::new().url("/").description(Some("This server."));
    document.servers = Some(vec![here.build()]);
    for path in document.paths.paths.values_mut() {
        for operation in operations(path) {
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response {
                    let header = responses::header("Names this request in the server's log.");
                    response.headers.insert("X-Request-Id".to_owned(), header.into());
                }
            }
        }
    }
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, patch, .. } = path;
    [get, put, post, delete, patch].into_iter().flatten()
}

/// Serves the document, written once.
pub(super) fn router(document: &utoipa::openapi::OpenApi) -> Router<AppState> {
    let text: &'static str = document.to_json().unwrap_or_default().leak();
    let json_type = HeaderValue::from_static("application/json");
    Router::new().route("/openapi.json", get(async move || ([(CONTENT_TYPE, json_type)], text)))
}
