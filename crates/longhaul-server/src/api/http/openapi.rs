//! Common parts of the `OpenAPI` 3.1 document. Operations are described beside their handlers.

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

pub(crate) use params::*;
pub(crate) use responses::*;

use crate::api::AppState;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Longhaul",
        description = "Durable jobs over HTTP: submit a job, get its id in milliseconds, fetch the result at any time.\n\nEvery response carries `X-Request-Id`; every error is `application/problem+json` with a stable `code`.",
    ),
    tags(
        (name = "jobs", description = "Submit, read, watch and change jobs."),
        (name = "kinds", description = "Kinds of jobs that can be submitted."),
        (name = "queues", description = "Queues and their state."),
        (name = "usage", description = "Usage of finished jobs."),
        (name = "accounts", description = "Tenants, API keys and the audit log. Requires the scope `admin`."),
        (name = "operations", description = "Health, metrics and replicas."),
    ),
    components(schemas(wire::BatchJob, wire::Job, wire::Problem)),
)]
pub(crate) struct Document;

/// Adds the `X-Request-Id` header of every response, and the server's address.
pub(crate) fn complete(document: &mut utoipa::openapi::OpenApi) {
    let here = ServerBuilder::new().url("/").description(Some("This server."));
    document.servers = Some(vec![here.build()]);
    for path in document.paths.paths.values_mut() {
        for operation in operations(path) {
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response {
                    let header = responses::header("Id of this request in the server's log.");
                    response.headers.insert("X-Request-Id".to_owned(), header.into());
                }
            }
        }
    }
}

/// Adds the security schemes and authentication errors to all operations.
pub(crate) fn guard(document: &mut utoipa::openapi::OpenApi) {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "`Authorization: Bearer lh_…` with an API key, or, where the server trusts an OpenID Connect issuer, with a token (JWT) of that issuer. Not required if the server runs without `auth.require_keys`.",
        ))
        .build();
    let header = ApiKey::Header(ApiKeyValue::with_description(
        "X-Api-Key",
        "The API key, for clients that cannot set `Authorization`.",
    ));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    components.add_security_scheme("apiKey", SecurityScheme::ApiKey(header));
    let no_scopes: [&str; 0] = [];
    for path in document.paths.paths.values_mut() {
        for operation in operations(path) {
            operation.security = Some(vec![
                SecurityRequirement::new("bearer", no_scopes),
                SecurityRequirement::new("apiKey", no_scopes),
                SecurityRequirement::default(),
            ]);
            for (status, problem) in GuardProblems::responses() {
                let responses = &mut operation.responses.responses;
                match (responses.get_mut(&status), problem) {
                    (Some(RefOr::T(existing)), RefOr::T(problem)) => {
                        if !existing.description.contains(&problem.description) {
                            existing.description =
                                format!("{}\n\n{}", existing.description, problem.description);
                        }
                        for (name, header) in problem.headers {
                            existing.headers.entry(name).or_insert(header);
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

/// Serves the document, serialized once.
pub(crate) fn router(document: &utoipa::openapi::OpenApi) -> Router<AppState> {
    let text: &'static str = document.to_json().unwrap_or_default().leak();
    let json_type = HeaderValue::from_static("application/json");
    Router::new().route("/openapi.json", get(async move || ([(CONTENT_TYPE, json_type)], text)))
}
