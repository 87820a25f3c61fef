//! The `OpenAPI` 3.1 document: what all operations share. Each operation is described where it is
//! served.

pub(crate) mod docs_page;
mod params;
mod responses;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use longhaul_client::wire;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{PathItem, RefOr, ServerBuilder};
use utoipa::{IntoResponses, OpenApi};

pub(crate) use params::{ListParams, PageParams, PathOfJob, SubmitHeaders, UsageParams};
pub(crate) use responses::{
    Accepted, AdminProblems, ArtifactProblems, BatchProblems, BillingProblems, BulkProblems,
    ChangeProblems, DeliveryProblems, EndpointProblems, EventStream, ForkProblems,
    JobAskedProblems, JobListProblems, JobProblems, JobStated, JobUnchanged, KeyProblems,
    ListProblems, NewEndpointProblems, NewKeyProblems, NewTenantProblems, QueueProblems,
    ReadProblems, ReceiptProblems, ResultProblems, SubmitProblems, TenantProblems, Unready,
};

use crate::api::AppState;
use responses::GuardProblems;

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
        (name = "accounts", description = "Tenants, their keys, and who did what. For admins."),
        (name = "operations", description = "For whoever runs the server."),
    ),
    components(schemas(wire::BatchJob, wire::Job, wire::Problem)),
)]
pub(crate) struct Document;

/// Adds what every operation has: the request's id on each answer, and this server's address.
pub(crate) fn complete(document: &mut utoipa::openapi::OpenApi) {
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

/// Adds what operations have that ask who calls: how to say it, and what is said to those who may not.
pub(crate) fn guard(document: &mut utoipa::openapi::OpenApi) {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "`Authorization: Bearer lh_…` with an API key, or, where the server trusts an OpenID Connect issuer, with a token (JWT) of that issuer. Not needed where the server says so.",
        ))
        .build();
    let header = ApiKey::Header(ApiKeyValue::with_description(
        "X-Api-Key",
        "The same, for clients that cannot set the other header.",
    ));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    components.add_security_scheme("apiKey", SecurityScheme::ApiKey(header));
    let nothing: [&str; 0] = [];
    for path in document.paths.paths.values_mut() {
        for operation in operations(path) {
            operation.security = Some(vec![
                SecurityRequirement::new("bearer", nothing),
                SecurityRequirement::new("apiKey", nothing),
                SecurityRequirement::default(),
            ]);
            for (status, problem) in GuardProblems::responses() {
                let responses = &mut operation.responses.responses;
                match (responses.get_mut(&status), problem) {
                    (Some(RefOr::T(there)), RefOr::T(problem)) => {
                        if !there.description.contains(&problem.description) {
                            there.description =
                                format!("{}\n\n{}", there.description, problem.description);
                        }
                        for (name, header) in problem.headers {
                            there.headers.entry(name).or_insert(header);
                        }
                    }
                    (_, problem) => {
                        responses.insert(status, problem);
                    }
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
pub(crate) fn router(document: &utoipa::openapi::OpenApi) -> Router<AppState> {
    let text: &'static str = document.to_json().unwrap_or_default().leak();
    let json_type = HeaderValue::from_static("application/json");
    Router::new().route("/openapi.json", get(async move || ([(CONTENT_TYPE, json_type)], text)))
}
