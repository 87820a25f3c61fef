//! The page at `/docs`: the operations of the `OpenAPI` document, for reading.

use std::fmt::Write as _;

use axum::Router;
use axum::routing::get;
use serde_json::Value;
use utoipa::openapi::OpenApi;

use super::AppState;
use super::html::{Escaped, page};

/// Serves the page, written once from the document: no script, nothing loaded from elsewhere.
pub(super) fn router(document: &OpenApi) -> Router<AppState> {
    let document = serde_json::to_value(document).unwrap_or_default();
    let body: &'static str = write(&document).unwrap_or_default().leak();
    Router::new().route("/docs", get(async move || page("Longhaul: the API", "", body)))
}

fn write(document: &Value) -> Result<String, std::fmt::Error> {
    let mut body = String::from(
        "<h1>Longhaul: the API <a href=\"/openapi.json\">openapi.json</a> <a href=\"/\">jobs</a></h1>\n<table>\n",
    );
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            write_operation(&mut body, method, path, operation)?;
        }
    }
    body.push_str("</table>\n");
    Ok(body)
}

fn write_operation(
    body: &mut String,
    method: &str,
    path: &str,
    operation: &Value,
) -> std::fmt::Result {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    write!(
        body,
        "<tr><td><code>{} {}</code></td><td><b>{}</b><br>{}",
        method.to_uppercase(),
        Escaped(path),
        Escaped(text("summary")),
        Escaped(text("description")),
    )?;
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let text = |field: &str| parameter[field].as_str().unwrap_or_default();
        let (name, place, about) = (text("name"), text("in"), text("description"));
        let (name, about) = (Escaped(name), Escaped(about));
        write!(body, "<br><code>{name}</code> <span class=\"soft\">{place}</span> {about}")?;
    }
    write!(body, "</td><td>")?;
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let about = response["description"].as_str().unwrap_or_default();
        write!(body, "<b>{}</b> {}<br>", Escaped(status), Escaped(about))?;
    }
    writeln!(body, "</td></tr>")
}
