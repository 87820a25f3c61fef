use std::time::Duration;

use axum::http::StatusCode;
use longhaul::job::hour_of;
use serde_json::{Value, json};

use crate::harness::TestServer;

/// Without what depends on how long things took and when.
fn settled(mut usage: Value) -> Value {
    for key in ["from", "to"] {
        usage[key] = "[time]".into();
    }
    usage["total"]["runSeconds"] = "[seconds]".into();
    for row in usage["rows"].as_array_mut().unwrap() {
        row["start"] = "[time]".into();
        row["runSeconds"] = "[seconds]".into();
    }
    usage
}

#[tokio::test]
async fn usage_sums_finished_jobs_by_kind() {
    let server = TestServer::start().await;
    server.run("steps", json!(null)).await;
    server.run("steps", json!(null)).await;
    server.run("fails", json!(null)).await;
    server.submit("gated", json!(null)).await;
    // The month may end during the test, so the query names it.
    let from = hour_of(server.state.engine.now()).as_millis() - 3_600_000;
    let from = longhaul::Timestamp::from_millis(from);
    let response = server.get(&format!("/v1/usage?from={from}&by=month")).send().await;
    assert_eq!(response.status, StatusCode::OK);
    insta::assert_json_snapshot!(settled(response.json()), @r#"
    {
      "from": "[time]",
      "to": "[time]",
      "by": "month",
      "rows": [
        {
          "start": "[time]",
          "kind": "fails",
          "key": null,
          "jobs": 1,
          "runSeconds": "[seconds]",
          "payloadBytes": 0,
          "steps": 0,
          "promptTokens": 0,
          "completionTokens": 0
        },
        {
          "start": "[time]",
          "kind": "steps",
          "key": null,
          "jobs": 2,
          "runSeconds": "[seconds]",
          "payloadBytes": 0,
          "steps": 4,
          "promptTokens": 0,
          "completionTokens": 0
        }
      ],
      "total": {
        "jobs": 3,
        "runSeconds": "[seconds]",
        "payloadBytes": 0,
        "steps": 4,
        "promptTokens": 0,
        "completionTokens": 0
      }
    }
    "#);
}

#[tokio::test]
async fn usage_is_grouped_by_the_submitting_key() {
    let server = TestServer::start().await;
    let engine = server.state.engine.for_key(Some("key-1"));
    let job = engine.submit_raw("echo", &1).await.unwrap();
    job.result_as::<u32>().await.unwrap();
    let usage = server.get("/v1/usage").send().await.json();
    assert_eq!((&usage["rows"][0]["key"], &usage["total"]["jobs"]), (&json!("key-1"), &json!(1)));
}

#[tokio::test]
async fn usage_without_jobs_is_an_empty_list() {
    let server = TestServer::start().await;
    let response = server
        .get("/v1/usage?from=2026-01-01T00:30:00Z&to=2026-01-02T00:00:00Z")
        .header("accept", "application/json")
        .send()
        .await;
    insta::assert_json_snapshot!(response.json(), @r#"
    {
      "from": "2026-01-01T00:00:00.000Z",
      "to": "2026-01-02T00:00:00.000Z",
      "by": "day",
      "rows": [],
      "total": {
        "jobs": 0,
        "runSeconds": 0.0,
        "payloadBytes": 0,
        "steps": 0,
        "promptTokens": 0,
        "completionTokens": 0
      }
    }
    "#);
}

#[tokio::test]
async fn usage_is_available_as_csv() {
    let server = TestServer::start().await;
    server.run("steps", json!(null)).await;
    let named = server.get("/v1/usage?format=csv").send().await;
    let negotiated = server.get("/v1/usage").header("accept", "text/csv").send().await;
    for response in [&named, &negotiated] {
        let csv = "text/csv; charset=utf-8; header=present";
        assert_eq!(response.header("content-type"), Some(csv));
        let lines: Vec<&str> = response.text().split("\r\n").collect();
        let [header, row, ""] = lines[..] else { panic!("{lines:?}") };
        let columns =
            "start,kind,key,jobs,runSeconds,payloadBytes,steps,promptTokens,completionTokens";
        assert_eq!(header, columns);
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!((cells[1], cells[2], cells[3], cells[6]), ("steps", "", "1", "2"));
    }
    assert_eq!(named.body, negotiated.body);
}

#[tokio::test]
async fn invalid_usage_parameters_are_rejected() {
    let server = TestServer::start().await;
    let far = server.state.engine.now().after(Duration::from_hours(24));
    for (query, problem) in [
        ("by=week".to_owned(), (400, "bad-request")),
        ("from=monday".to_owned(), (400, "bad-request")),
        ("until=2026-01-01T00:00:00Z".to_owned(), (400, "bad-request")),
        (format!("from={far}"), (422, "validation")),
        ("from=2020-01-01T00:00:00Z".to_owned(), (422, "validation")),
    ] {
        let response = server.get(&format!("/v1/usage?{query}")).send().await;
        assert_eq!(response.problem(), (problem.0, problem.1.to_owned()), "{query}");
    }
}
