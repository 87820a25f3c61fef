//! The page at `/docs`: the operations of the `OpenAPI` document, for reading.

use axum::Router;
use axum::routing::get;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;
use utoipa::openapi::OpenApi;

use crate::api::AppState;
use crate::dashboard::layout::bare;

/// Serves the page, written once from the document: nothing is loaded from elsewhere.
pub(crate) fn router(document: &OpenApi) -> Router<AppState> {
    let document = serde_json::to_value(document).unwrap_or_default();
    let body: &'static str = write(&document).into_string().leak();
    let page = async move || bare("The API", &html! {}, &PreEscaped(body.to_owned()));
    Router::new().route("/docs", get(page))
}

fn write(document: &Value) -> Markup {
    let paths = document["paths"].as_object().into_iter().flatten();
    html! {
        main {
            h1 { "Longhaul: the API" }
            p { a href="/openapi.json" { "openapi.json" } " · " a href="/" { "Overview" } }
            div.scroll tabindex="0" role="group" aria-label="Operations" {
                table {
                    thead { tr { th { "Operation" } th { "What it does" } th { "Answers" } } }
                    tbody {
                        @for (path, operations) in paths {
                            @for (method, operation) in operations.as_object().into_iter().flatten() {
                                (row(method, path, operation))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row(method: &str, path: &str, operation: &Value) -> Markup {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let responses = operation["responses"].as_object().into_iter().flatten();
    html! {
        tr {
            td { code { (method.to_uppercase()) " " (path) } }
            td {
                strong { (text(operation, "summary")) }
                p { (text(operation, "description")) }
                @for parameter in parameters {
                    p {
                        code { (text(parameter, "name")) } " " span.soft { (text(parameter, "in")) }
                        " " (text(parameter, "description"))
                    }
                }
            }
            td {
                @for (status, response) in responses {
                    p { strong { (status) } " " (text(response, "description")) }
                }
            }
        }
    }
}
