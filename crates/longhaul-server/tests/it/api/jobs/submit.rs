use axum::body::Body;
use axum::http::StatusCode;
use longhaul::job::{Json, Limits};
use longhaul::{Ctx, Engine, JobError};
use serde_json::json;

use crate::harness::{TestServer, redacted, status_url};

#[tokio::test]
async fn accepted_submission_has_location_and_retry_after() {
    let server = TestServer::start().await;
    let response =
        server.post("/v1/jobs").json(json!({"kind": "gated", "input": {"n": 1}})).send().await;
    assert_eq!(response.status, StatusCode::ACCEPTED);
    let job = response.json();
    assert_eq!(response.header("location"), Some(status_url(&job)));
    assert_eq!(response.header("retry-after"), Some("10"));
    assert_eq!(response.header("etag"), Some("\"1\""));
    assert!(response.header("x-request-id").is_some());
    insta::assert_json_snapshot!(redacted(job), @r#"
    {
      "jobId": "[id]",
      "kind": "gated",
      "queue": "default",
      "status": "pending",
      "phase": null,
      "priority": 0,
      "attempt": 0,
      "maxAttempts": 3,
      "progress": null,
      "labels": {},
      "version": 1,
      "idempotencyKey": null,
      "createdAt": "[time]",
      "runAt": "[time]",
      "startedAt": null,
      "completedAt": null,
      "expiresAt": null,
      "result": null,
      "error": null,
      "artifacts": [],
      "statusUrl": "/v1/jobs/[id]",
      "eventsUrl": "/v1/jobs/[id]/events",
      "retryAfter": 10,
      "forkedFrom": null,
      "parentId": null
    }
    "#);
}

#[tokio::test]
async fn every_field_of_a_submission_is_stored() {
    let server = TestServer::start().await;
    let response = server
        .post("/v1/jobs")
        .header("idempotency-key", "all")
        .json(json!({
            "kind": "echo", "input": {}, "queue": "slow", "priority": -3, "delay": "1h",
            "maxAttempts": 7, "timeout": "5m", "labels": {"team": "blue"},
            "retention": {"completed": "2d", "failed": "30d"},
        }))
        .send()
        .await;
    let job = response.json();
    assert_eq!(job["queue"], "slow");
    assert_eq!(job["priority"], -3);
    assert_eq!(job["maxAttempts"], 7);
    assert_eq!(job["labels"], json!({"team": "blue"}));
    assert_eq!(job["idempotencyKey"], "all");
    assert!(job["runAt"].as_str() > job["createdAt"].as_str());
}

#[tokio::test]
async fn run_at_accepts_any_offset_and_is_returned_in_utc() {
    let server = TestServer::start().await;
    let at = "2099-01-01T02:00:00+02:00";
    let body = json!({"kind": "echo", "input": {}, "runAt": at});
    let response = server.post("/v1/jobs").json(body).send().await;
    assert_eq!(response.problem(), (422, "validation".to_owned()), "beyond delay_max");
    let soon = longhaul::Clock::system().now().after(std::time::Duration::from_hours(24));
    let body = json!({"kind": "echo", "input": {}, "runAt": soon.to_string()});
    let job = server.post("/v1/jobs").json(body).send().await.json();
    assert_eq!(job["runAt"], soon.to_string());
}

#[tokio::test]
async fn body_of_a_kind_route_is_the_input() {
    let server = TestServer::start().await;
    for input in ["{\"big\":123456789012345678901234567890}", "[1, 2]", "\"text\"", "null"] {
        let response = server.post("/v1/kinds/echo/jobs").json_text(input).send().await;
        assert_eq!(response.status, StatusCode::ACCEPTED);
        let job = response.json();
        let stored = server.get(&format!("{}/input", status_url(&job))).send().await;
        assert_eq!(stored.text(), input);
        assert_eq!(stored.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn input_and_result_keep_their_bytes() {
    let server = TestServer::start().await;
    let body = r#"{"kind":"echo","input":{"z":1,  "a":123456789012345678901234567890.10}}"#;
    let job = server.post("/v1/jobs").json_text(body).send().await.json();
    server.until(&job, |job| job["status"] == "completed").await;
    for part in ["input", "result"] {
        let stored = server.get(&format!("{}/{part}", status_url(&job))).send().await;
        assert_eq!(stored.text(), r#"{"z":1,  "a":123456789012345678901234567890.10}"#);
    }
}

#[tokio::test]
async fn unknown_kind_is_rejected_with_the_known_kinds() {
    let server = TestServer::start().await;
    let response = server.post("/v1/jobs").json(json!({"kind": "ehco", "input": {}})).send().await;
    assert_eq!(response.problem(), (422, "unknown-kind".to_owned()));
    insta::assert_snapshot!(response.detail(), @r#"unknown kind "ehco"; known kinds: echo, fails, gated, steps"#);
    let response = server.post("/v1/kinds/ehco/jobs").json_text("{}").send().await;
    assert_eq!(response.problem(), (422, "unknown-kind".to_owned()));
}

#[tokio::test]
async fn invalid_submission_is_rejected_with_a_reason() {
    let server = TestServer::start().await;
    let deep = format!(r#"{{"kind":"echo","input":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let cases = [
        r#"{"kind":"echo","input":{},"maxAttemps":3}"#,
        r#"{"kind":"echo","input":{},"runAt":"2026-01-01T00:00:00Z","delay":"5s"}"#,
        r#"{"kind":"echo","input":{},"runAt":"tomorrow"}"#,
        r#"{"kind":"echo","input":{},"delay":"soon"}"#,
        r#"{"kind":"echo","input":{},"timeout":"0s"}"#,
        r#"{"kind":"echo","input":{},"maxAttempts":0}"#,
        r#"{"kind":"echo","input":{},"priority":101}"#,
        r#"{"kind":"echo","input":{},"queue":"a/b"}"#,
        r#"{"kind":"echo","input":{"a":1,"a":2}}"#,
        r#"{"kind":"echo"}"#,
        r#"["echo",{}]"#,
        r#"{"kind":"echo","#,
        "",
        &deep,
    ];
    let mut refusals = Vec::new();
    for case in cases {
        let response = server.post("/v1/jobs").json_text(case.to_owned()).send().await;
        let (status, code) = response.problem();
        refusals.push(format!("{status} {code}: {}", response.detail()));
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    422 validation: unknown field "maxAttemps"; did you mean "maxAttempts"? Known: kind, input, queue, priority, runAt, delay, maxAttempts, timeout, labels, retention, webhook
    422 validation: runAt and delay are mutually exclusive
    422 validation: runAt "tomorrow" is not an RFC 3339 instant
    422 validation: "soon" is not a duration: write whole numbers with units, for example "15s" or "1h30m" at line 1 column 41
    422 validation: the timeout must be longer than zero
    422 validation: maxAttempts must be at least 1
    422 validation: the priority is over the limit: 101, at most 100 (priority_max)
    422 validation: "a/b" is not a name: use a letter or digit, then up to 63 letters, digits, '.', '_' or '-'
    400 invalid-json: an object in the body has the key "a" twice
    422 validation: missing field `input` at line 1 column 15
    400 invalid-json: the body must be a JSON object
    400 invalid-json: EOF while parsing a value at line 1 column 15
    400 invalid-json: the body must be a JSON object
    400 json-too-deep: arrays and objects may be nested at most 64 levels deep
    "#);
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn other_content_types_are_415() {
    let server = TestServer::start().await;
    for path in ["/v1/jobs", "/v1/kinds/echo/jobs", "/v1/jobs/batch", "/v1/jobs/cancel"] {
        let kinds: &[&str] = match path {
            // A payload may have any type.
            "/v1/kinds/echo/jobs" => &[],
            "/v1/jobs" => &["text/plain", "application/x-www-form-urlencoded"],
            _ => &["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"],
        };
        for kind in kinds {
            let response = server.post(path).header("content-type", kind).body("{}").send().await;
            assert_eq!(
                response.problem(),
                (415, "unsupported-media-type".to_owned()),
                "{path} {kind}"
            );
        }
        let response = server.post(path).body("{}").send().await;
        assert_eq!(response.problem(), (415, "unsupported-media-type".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn input_over_its_limit_is_413() {
    let server = TestServer::start().await;
    let limit = server.state.engine.limits().input_bytes_max;
    for bytes in [limit + 1, limit + 1024 * 1024] {
        let input = format!("\"{}\"", "x".repeat(bytes - 2));
        let response = server.post("/v1/kinds/echo/jobs").json_text(input).send().await;
        assert_eq!(response.problem(), (413, "payload-too-large".to_owned()));
    }
    let input = format!("\"{}\"", "x".repeat(limit - 2));
    let response = server.post("/v1/kinds/echo/jobs").json_text(input).send().await;
    assert_eq!(response.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn body_that_is_not_utf8_is_400() {
    let server = TestServer::start().await;
    let response = server.post("/v1/jobs").json_text(&b"{\"kind\":\"\xff\"}"[..]).send().await;
    assert_eq!(response.problem(), (400, "invalid-json".to_owned()));
    assert_eq!(response.detail(), "the body is not UTF-8 at byte 9");
}

#[tokio::test]
async fn failed_job_is_not_an_http_error() {
    let server = TestServer::start().await;
    let body = json!({"kind": "fails", "input": {}});
    let response = server.post("/v1/jobs?mode=sync").json(body).send().await;
    assert_eq!(response.status, StatusCode::OK);
    let job = response.json();
    assert_eq!(response.header("retry-after"), None);
    assert_eq!((&job["status"], &job["retryAfter"]), (&json!("failed"), &json!(null)));
    insta::assert_json_snapshot!(job["error"], @r#"
    {
      "code": "cheese",
      "message": "the disk is made of cheese",
      "retryable": false,
      "attempt": 1
    }
    "#);
}

/// A body that fails the test when it is read.
fn unread() -> Body {
    let touched = async { panic!("the body was read") as Result<&str, std::io::Error> };
    Body::from_stream(futures_util::stream::once(touched))
}

#[tokio::test]
async fn submission_with_a_too_large_content_length_is_rejected_unread() {
    let server = TestServer::start().await;
    for path in ["/v1/jobs", "/v1/jobs/batch", "/v1/jobs/purge"] {
        let ask = server.post(path).header("content-length", "99999999999").json_text(unread());
        assert_eq!(ask.send().await.problem(), (413, "payload-too-large".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn compressed_submission_is_rejected_unread() {
    let server = TestServer::start().await;
    let ask = server.post("/v1/jobs").header("content-encoding", "gzip").json_text(unread());
    assert_eq!(ask.send().await.problem(), (415, "unsupported-media-type".to_owned()));
    let plain = server.post("/v1/jobs").header("content-encoding", "identity");
    let response = plain.json(json!({"kind": "echo", "input": 1})).send().await;
    assert_eq!(response.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn duplicate_json_key_is_rejected_at_any_depth() {
    let server = TestServer::start().await;
    let fork = format!("{}/fork", status_url(&server.run("echo", json!(1)).await));
    for (path, body) in [
        ("/v1/jobs", r#"{"kind":"echo","input":1,"labels":{"twin":"1","twin":"2"}}"#),
        ("/v1/jobs", r#"{"kind":"echo","input":[{"twin":1e400,"twin":2}]}"#),
        ("/v1/jobs", r#"{"kind":"echo","input":1,"twin":1,"twin":2}"#),
        ("/v1/kinds/echo/jobs", r#"{"twin":1,"twin":2}"#),
        ("/v1/jobs/cancel", r#"{"filter":{"twin":"failed","twin":"pending"}}"#),
        (fork.as_str(), r#"{"twin":1,"twin":2}"#),
    ] {
        let response = server.post(path).json_text(body).send().await;
        assert_eq!(response.problem(), (400, "invalid-json".to_owned()), "{body}");
        assert!(response.detail().contains("\"twin\" twice"), "{response:?}");
    }
}

#[tokio::test]
async fn duplicate_json_key_rejects_only_its_job_of_a_batch() {
    let server = TestServer::start().await;
    let body =
        r#"{"jobs":[{"kind":"echo","input":{"a":1,"a":2}},{"kind":"echo","input":{"a":1}}]}"#;
    let responses = server.post("/v1/jobs/batch").json_text(body).send().await.json();
    assert_eq!(responses[0]["code"], "invalid-json", "{responses}");
    assert_eq!(responses[1]["kind"], "echo", "{responses}");
    let outer = server.post("/v1/jobs/batch").json_text(r#"{"jobs":[],"jobs":[]}"#).send().await;
    assert_eq!(outer.problem(), (400, "invalid-json".to_owned()));
}

#[tokio::test]
async fn null_field_equals_a_missing_field() {
    let server = TestServer::start().await;
    let body = json!({"kind": "echo", "input": 1, "labels": null, "queue": null, "delay": null});
    let response = server.post("/v1/jobs").json(body.clone()).send().await;
    assert_eq!(response.json()["labels"], json!({}), "{response:?}");
    let batch = server.post("/v1/jobs/batch").json(json!({"jobs": [body]})).send().await;
    assert_eq!(batch.json()[0]["labels"], json!({}), "{batch:?}");
}

#[tokio::test]
async fn submission_over_the_pending_limit_is_429_with_retry_after() {
    let limits = Limits { pending_per_tenant_max: 2, ..Limits::default() };
    let engine = Engine::builder()
        .limits(limits)
        .concurrency(0)
        .kind("echo", |_: Ctx, input: Json| async { Ok::<_, JobError>(input) })
        .start()
        .await
        .unwrap();
    let server = TestServer::with_state(|state| state.engine = engine).await;
    let submit = async |key: &str| {
        let body = json!({"kind": "echo", "input": 1});
        server.post("/v1/jobs").header("idempotency-key", key).json(body).send().await
    };
    let first = submit("a").await.json();
    assert_eq!(submit("b").await.status, StatusCode::ACCEPTED);

    let refused = submit("c").await;
    assert_eq!(refused.problem(), (429, "pending-limit".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("ratelimit-policy"), Some(r#""pending";q=2"#));
    assert_eq!(refused.header("ratelimit"), Some(r#""pending";r=0;t=1"#));
    assert!(refused.detail().contains("limit of 2 pending jobs"), "{}", refused.detail());

    let again = submit("a").await;
    assert_eq!((again.status, &again.json()["jobId"]), (StatusCode::ACCEPTED, &first["jobId"]));
    let batch = json!({"jobs": [
        {"kind": "echo", "input": 1, "idempotencyKey": "a"},
        {"kind": "echo", "input": 1, "idempotencyKey": "d"},
    ]});
    let responses = server.post("/v1/jobs/batch").json(batch).send().await.json();
    assert_eq!(
        (&responses[0]["jobId"], &responses[1]["code"]),
        (&first["jobId"], &json!("pending-limit"))
    );
}
