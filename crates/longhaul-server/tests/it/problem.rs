//! Every error response is a problem with a request id, whether a handler or the framework created it.

use axum::Router;
use axum::body::Body;
use axum::extract::Json;
use axum::http::{Method, Request, Response, StatusCode};
use axum::routing::{get, post};
use longhaul_server::problem::{Code, Problem, with_layers};
use serde_json::Value;
use tower::ServiceExt;

fn app() -> Router {
    with_layers(
        Router::new()
            .route("/ok", get(|| async { "fine" }))
            .route("/panic", get(|| async { panic!("secret in a panic") as &str }))
            .route("/refused", get(|| async { Problem::new(Code::WrongStatus, "it has ended") }))
            .route("/raw", get(|| async { (StatusCode::BAD_GATEWAY, "upstream said: secret") }))
            .route("/teapot", get(|| async { StatusCode::IM_A_TEAPOT }))
            .route("/json", post(|Json(value): Json<Vec<u32>>| async move { Json(value) })),
    )
}

async fn call(method: Method, path: &str, body: &str) -> Response<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-request-id", "req-1")
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap();
    app().oneshot(request).await.unwrap()
}

/// The problem, after checking what all of them share.
async fn problem(response: Response<Body>) -> Value {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert_eq!(response.headers()["x-request-id"], "req-1");
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(value["status"], status);
    assert_eq!(value["requestId"], "req-1");
    assert_eq!(value["type"], format!("/problems/{}", value["code"].as_str().unwrap()));
    value
}

#[tokio::test]
async fn handlers_problem_is_sent_with_its_request_id() {
    let value = problem(call(Method::GET, "/refused", "").await).await;
    insta::assert_json_snapshot!(value);
}

#[tokio::test]
async fn unknown_path_is_a_problem() {
    let value = problem(call(Method::GET, "/nowhere", "").await).await;
    assert_eq!((value["code"].as_str(), value["status"].as_u64()), (Some("not-found"), Some(404)));
}

#[tokio::test]
async fn wrong_method_is_a_problem_and_keeps_allow() {
    let response = call(Method::DELETE, "/ok", "").await;
    assert_eq!(response.headers()["allow"], "GET,HEAD");
    assert_eq!(problem(response).await["code"], "method-not-allowed");
}

#[tokio::test]
async fn frameworks_rejection_keeps_its_explanation() {
    let value = problem(call(Method::POST, "/json", "[1,").await).await;
    assert_eq!(
        (value["code"].as_str(), value["status"].as_u64()),
        (Some("bad-request"), Some(400))
    );
    assert!(value["detail"].as_str().unwrap().contains("EOF while parsing"), "{value}");
    let value = problem(call(Method::POST, "/json", "{}").await).await;
    assert_eq!((value["code"].as_str(), value["status"].as_u64()), (Some("validation"), Some(422)));
}

#[tokio::test]
async fn panic_is_an_internal_problem_without_details() {
    let value = problem(call(Method::GET, "/panic", "").await).await;
    assert_eq!((value["code"].as_str(), value["status"].as_u64()), (Some("internal"), Some(500)));
    assert!(!value.to_string().contains("secret"));
}

#[tokio::test]
async fn server_errors_reveal_no_details() {
    let value = problem(call(Method::GET, "/raw", "").await).await;
    assert_eq!((value["code"].as_str(), value["status"].as_u64()), (Some("internal"), Some(502)));
    assert!(!value.to_string().contains("secret"));
}

#[tokio::test]
async fn problem_status_without_a_code_is_kept() {
    let value = problem(call(Method::GET, "/teapot", "").await).await;
    assert_eq!(
        (value["code"].as_str(), value["status"].as_u64()),
        (Some("bad-request"), Some(418))
    );
}

#[tokio::test]
async fn success_passes_through_with_a_request_id() {
    let response = call(Method::GET, "/ok", "").await;
    assert_eq!(
        (response.status(), &response.headers()["x-request-id"]),
        (StatusCode::OK, &"req-1".parse().unwrap())
    );
}

#[tokio::test]
async fn request_without_an_id_gets_one() {
    let request = Request::get("/ok").body(Body::empty()).unwrap();
    let response = app().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["x-request-id"].len(), 26);
}
