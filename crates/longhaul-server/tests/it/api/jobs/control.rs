use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{TestResponse, TestServer, status_url};

async fn command(server: &TestServer, job: &Value, command: &str) -> TestResponse {
    server.post(&format!("{}/{command}", status_url(job))).send().await
}

#[tokio::test]
async fn pending_job_is_cancelled_at_once() {
    let server = TestServer::start().await;
    let body = json!({"kind": "echo", "input": 1, "delay": "1h"});
    let job = server.post("/v1/jobs").json(body).send().await.json();
    let response = command(&server, &job, "cancel").await;
    assert_eq!(
        (response.status, &response.json()["status"]),
        (StatusCode::OK, &json!("cancelled"))
    );
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn running_job_is_cancelled_cooperatively() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(1)).await;
    let job = server.until_running(&job).await;
    let response = command(&server, &job, "cancel").await;
    assert_eq!(response.status, StatusCode::ACCEPTED);
    assert_eq!(response.header("location"), Some(status_url(&job)));
    assert_eq!(response.json()["phase"], "cancelling");
}

#[tokio::test]
async fn failed_job_is_resumed_and_continues() {
    let server = TestServer::start().await;
    let job = server.run("fails", json!(1)).await;
    let response = command(&server, &job, "resume").await;
    assert_eq!(
        (response.status, &response.json()["status"]),
        (StatusCode::ACCEPTED, &json!("pending"))
    );
    assert_eq!(response.json()["jobId"], job["jobId"]);
}

#[tokio::test]
async fn fork_creates_a_job_with_the_earlier_steps() {
    let server = TestServer::start().await;
    let job = server.run("steps", json!({})).await;
    let ask = server.post(&format!("{}/fork", status_url(&job))).json(json!({"fromStep": "two"}));
    let response = ask.send().await;
    assert_eq!(response.status, StatusCode::ACCEPTED);
    let fork = response.json();
    assert_eq!(response.header("location"), Some(status_url(&fork)));
    assert_eq!(fork["forkedFrom"], job["jobId"]);
    assert_ne!(fork["jobId"], job["jobId"]);
    let end = server.until(&fork, |job| job["completedAt"].is_string()).await;
    assert_eq!(end["result"], 3);
    let bare = command(&server, &job, "fork").await;
    assert_eq!(bare.status, StatusCode::ACCEPTED, "all steps are kept if none is named");
    let null = server.post(&format!("{}/fork", status_url(&job))).json_text("null").send().await;
    assert_eq!(null.status, StatusCode::ACCEPTED);
    let unknown =
        server.post(&format!("{}/fork", status_url(&job))).json(json!({"fromStep": "three"}));
    assert_eq!(unknown.send().await.problem(), (422, "step-unknown".to_owned()));
}

#[tokio::test]
async fn finished_job_is_purged() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    let response = server.delete(status_url(&job)).send().await;
    assert_eq!((response.status, response.body.len()), (StatusCode::NO_CONTENT, 0));
    assert_eq!(
        server.delete(status_url(&job)).send().await.problem(),
        (410, "job-gone".to_owned())
    );
}

#[tokio::test]
async fn control_operation_in_the_wrong_status_is_409() {
    let server = TestServer::start().await;
    let done = server.run("echo", json!(1)).await;
    let going = server.submit("gated", json!(1)).await;
    let mut refusals = Vec::new();
    for response in [
        command(&server, &done, "cancel").await,
        command(&server, &done, "resume").await,
        command(&server, &going, "resume").await,
        server.delete(status_url(&going)).send().await,
    ] {
        assert_eq!(response.problem(), (409, "wrong-status".to_owned()));
        refusals.push(response.detail().replace("pending", "running"));
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    cannot cancel a job that is completed
    cannot resume a job that is completed
    cannot resume a job that is running
    cannot purge a job that is running
    "#);
}

#[tokio::test]
async fn unknown_jobs_cannot_be_changed() {
    let server = TestServer::start().await;
    for path in ["cancel", "resume", "fork"] {
        let response =
            server.post(&format!("/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/{path}")).send().await;
        assert_eq!(response.problem(), (404, "job-not-found".to_owned()), "{path}");
    }
}
