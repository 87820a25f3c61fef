use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::harness::{TestRequest, TestResponse, TestServer, status_url};

const BYTES: &str = "application/octet-stream";

fn raw(server: &TestServer, key: Option<&str>) -> TestRequest {
    let ask = server.post("/v1/kinds/copy/jobs").header("content-type", BYTES);
    match key {
        Some(key) => ask.header("idempotency-key", key),
        None => ask,
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)))
}

fn form(parts: &[(&str, &str)]) -> String {
    let part = |(name, text): &(&str, &str)| {
        format!(
            "--X\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\
             content-type: text/csv\r\n\r\n{text}\r\n"
        )
    };
    parts.iter().map(part).chain(["--X--\r\n".to_owned()]).collect::<Vec<_>>().concat()
}

async fn send_form(server: &TestServer, parts: &[(&str, &str)]) -> TestResponse {
    let ask = server.post("/v1/jobs").header("content-type", "multipart/form-data; boundary=X");
    ask.body(form(parts)).send().await
}

async fn ended(server: &TestServer, response: &TestResponse) -> Value {
    assert_eq!(response.status, StatusCode::ACCEPTED, "{response:?}");
    server.until(&response.json(), |job| job["completedAt"].is_string()).await
}

async fn receipt(server: &TestServer, job: &Value) -> Value {
    server.get(&format!("{}/receipt", status_url(job))).send().await.json()
}

#[tokio::test]
async fn non_json_body_becomes_the_payload() {
    let server = TestServer::with_payload_kinds().await;
    let response = raw(&server, None).body("hello").send().await;
    let job = ended(&server, &response).await;
    assert_eq!(job["result"], 5);
    let artifact = &job["artifacts"][0];
    assert_eq!(
        (&artifact["name"], &artifact["contentType"]),
        (&json!("the copy.bin"), &json!(BYTES))
    );
    assert_eq!(artifact["size"], 5);
    let copy = server.get(artifact["url"].as_str().unwrap()).send().await;
    assert_eq!((copy.status, copy.text()), (StatusCode::OK, "hello"));
    assert_eq!(copy.header("repr-digest"), Some(&*digest(b"hello")));
    assert_eq!(
        copy.header("content-disposition"),
        Some("attachment; filename*=UTF-8''the%20copy.bin")
    );
    assert_eq!(copy.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn multipart_form_carries_the_job_before_the_payload() {
    let server = TestServer::with_payload_kinds().await;
    let job = r#"{"kind":"copy","input":null,"labels":{"a":"b"}}"#;
    for part in ["payload", "file"] {
        let response = send_form(&server, &[("job", job), (part, "a,b")]).await;
        let job = ended(&server, &response).await;
        assert_eq!((&job["result"], &job["labels"]["a"]), (&json!(3), &json!("b")));
        assert_eq!(job["artifacts"][0]["contentType"], "text/csv");
        let stored = receipt(&server, &job).await;
        assert_eq!(stored["stored"][0]["name"], "f");
    }
    let without = send_form(&server, &[("job", r#"{"kind":"echo","input":7}"#)]).await;
    assert_eq!(ended(&server, &without).await["result"], 7);
}

#[tokio::test]
async fn malformed_multipart_form_is_rejected_and_stores_nothing() {
    let server = TestServer::with_payload_kinds().await;
    let job = r#"{"kind":"copy","input":null}"#;
    let cases: [&[(&str, &str)]; 5] = [
        &[("payload", "x"), ("job", job)],
        &[("job", job), ("other", "x")],
        &[("job", job), ("payload", "x"), ("payload", "y")],
        &[("job", "{")],
        &[],
    ];
    for parts in cases {
        assert_eq!(send_form(&server, parts).await.status, StatusCode::BAD_REQUEST, "{parts:?}");
    }
    let ask = server.post("/v1/jobs").header("content-type", "multipart/form-data; boundary=X");
    let cut = form(&[("job", job), ("payload", "x")]);
    let response = ask.body(cut[..cut.len() - 8].to_owned()).send().await;
    assert_eq!(response.problem(), (400, "bad-request".to_owned()));
    let unknown =
        send_form(&server, &[("job", r#"{"kind":"no","input":1}"#), ("payload", "x")]).await;
    assert_eq!(unknown.problem(), (422, "unknown-kind".to_owned()));
    let listed = server.get("/v1/jobs").send().await.json();
    assert_eq!(listed["jobs"], json!([]));
}

#[tokio::test]
async fn payload_for_a_kind_without_payloads_is_rejected() {
    let server = TestServer::with_payload_kinds().await;
    let ask = server.post("/v1/kinds/plain/jobs").header("content-type", BYTES);
    let response = ask.body("x").send().await;
    assert_eq!(response.problem(), (422, "validation".to_owned()));
    assert!(response.detail().contains("does not accept payloads"));
}

#[tokio::test]
async fn upload_with_a_known_key_returns_its_job_without_reading_the_body() {
    let server = TestServer::with_payload_kinds().await;
    let first = raw(&server, Some("k")).body("hello").send().await;
    let id = first.json()["jobId"].clone();
    // A body that never comes.
    let silent =
        || Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let by_digest = raw(&server, Some("k")).header("content-digest", &digest(b"hello"));
    assert_eq!(by_digest.body(silent()).send().await.json()["jobId"], id);
    let waiting = raw(&server, Some("k")).header("expect", "100-continue");
    assert_eq!(waiting.body(silent()).send().await.json()["jobId"], id);
    assert_eq!(raw(&server, Some("k")).send().await.json()["jobId"], id, "an empty body");
    let sent_again = raw(&server, Some("k")).body("hello").send().await;
    assert_eq!(sent_again.json()["jobId"], id);
    for other in [
        raw(&server, Some("k")).header("content-digest", &digest(b"other")).body(silent()),
        raw(&server, Some("k")).body("other"),
        server
            .post("/v1/kinds/echo/jobs")
            .header("content-type", BYTES)
            .header("idempotency-key", "k")
            .body("hello"),
        server.post("/v1/kinds/copy/jobs").header("idempotency-key", "k").json_text("null"),
    ] {
        assert_eq!(other.send().await.problem(), (422, "idempotency-key-reused".to_owned()));
    }
    let stored = receipt(&server, &first.json()).await;
    let payloads = stored["stored"].as_array().unwrap();
    assert_eq!(payloads.iter().filter(|one| one["role"] == "payload").count(), 1);
}

#[tokio::test]
async fn concurrent_upload_with_the_same_key_waits_for_the_first() {
    let server = TestServer::with_payload_kinds().await;
    let (pieces, mut body) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let body = Body::from_stream(futures_util::stream::poll_fn(move |cx| body.poll_recv(cx)));
    let first = tokio::spawn(raw(&server, Some("k")).body(body).send());
    pieces.send(Ok("he".into())).await.unwrap();
    // Once there is room for another piece, the first one was taken.
    drop(pieces.reserve().await.unwrap());
    let second = raw(&server, Some("k")).body("hello").send().await;
    assert_eq!(second.problem(), (409, "upload-in-progress".to_owned()));
    assert!(second.header("retry-after").is_some());
    pieces.send(Ok("llo".into())).await.unwrap();
    drop(pieces);
    let first = first.await.unwrap();
    assert_eq!(first.status, StatusCode::ACCEPTED);
    let again = raw(&server, Some("k")).body("hello").send().await;
    assert_eq!(again.json()["jobId"], first.json()["jobId"]);
}

#[tokio::test]
async fn aborted_upload_does_not_consume_its_idempotency_key() {
    let server = TestServer::with_payload_kinds().await;
    let broken = futures_util::stream::iter([
        Ok(Bytes::from("he")),
        Err(std::io::Error::other("the line was cut")),
    ]);
    let response = raw(&server, Some("k")).body(Body::from_stream(broken)).send().await;
    assert_eq!(response.problem(), (400, "bad-request".to_owned()));
    let wrong = raw(&server, Some("k")).header("content-digest", &digest(b"other"));
    assert_eq!(wrong.body("hello").send().await.problem(), (400, "digest-mismatch".to_owned()));
    let response = raw(&server, Some("k")).header("content-digest", &digest(b"hello"));
    assert_eq!(response.body("hello").send().await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn payload_over_its_limit_is_refused_before_it_is_read() {
    let server = TestServer::with_payload_kinds().await;
    let max = server.state.engine.limits().payload_bytes_max;
    let silent =
        Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let announced = raw(&server, None).header("content-length", &(max + 1).to_string());
    let response = announced.body(silent).send().await;
    assert_eq!(response.problem(), (413, "payload-too-large".to_owned()));
}

#[tokio::test]
async fn artifact_supports_ranges_and_conditional_requests() {
    let server = TestServer::with_payload_kinds().await;
    let job = ended(&server, &raw(&server, None).body("0123456789").send().await).await;
    let path = job["artifacts"][0]["url"].as_str().unwrap();
    let part = server.get(path).header("range", "bytes=2-4").send().await;
    assert_eq!((part.status, part.text()), (StatusCode::PARTIAL_CONTENT, "234"));
    assert_eq!(part.header("content-range"), Some("bytes 2-4/10"));
    let etag = part.header("etag").unwrap().to_owned();
    let outside = server.get(path).header("range", "bytes=10-").send().await;
    assert_eq!(outside.problem(), (416, "range-not-satisfiable".to_owned()));
    assert_eq!(outside.header("content-range"), Some("bytes */10"));
    let same = server.get(path).header("if-none-match", &etag).send().await;
    assert_eq!((same.status, same.text()), (StatusCode::NOT_MODIFIED, ""));
    let changed = server.get(path).header("range", "bytes=2-4").header("if-range", "\"other\"");
    assert_eq!(changed.send().await.status, StatusCode::OK);
    let unknown = server.get(&format!("{}/artifacts/no", status_url(&job))).send().await;
    assert_eq!(unknown.problem(), (404, "artifact-not-found".to_owned()));
    let nowhere = server.get("/v1/jobs/nonsense/artifacts/no").send().await;
    assert_eq!(nowhere.problem(), (404, "job-not-found".to_owned()));
}

#[tokio::test]
async fn receipt_lists_stored_objects_with_their_deletion_times() {
    let server = TestServer::with_payload_kinds().await;
    let job = ended(&server, &raw(&server, None).body("hello").send().await).await;
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let mut stored = receipt(&server, &job).await;
    assert_eq!((&stored["unreadable"], &stored["jobGone"]), (&json!(false), &json!(false)));
    let payload = &stored["stored"][0];
    assert_eq!((&payload["role"], &payload["sha256"]), (&json!("payload"), &json!(sha256)));
    assert!(payload["keyDestroyedAt"].is_string(), "with the job's end: {payload}");
    assert_eq!(server.delete(status_url(&job)).send().await.status, StatusCode::NO_CONTENT);
    while stored["deleted"] == false {
        stored = receipt(&server, &job).await;
    }
    assert_eq!((&stored["unreadable"], &stored["jobGone"]), (&json!(true), &json!(true)));
    assert_eq!(stored["stored"].as_array().unwrap().len(), 2);
    let never = server.get("/v1/jobs/01K9XFT7G0000000000000001A/receipt").send().await;
    assert_eq!(never.problem(), (404, "job-not-found".to_owned()));
}

#[tokio::test]
async fn job_without_its_payload_cannot_be_resumed() {
    let server = TestServer::with_payload_kinds().await;
    let ask = server.post("/v1/kinds/fails/jobs").header("content-type", BYTES);
    let job = ended(&server, &ask.body("hello").send().await).await;
    assert_eq!(job["status"], "failed");
    for change in ["resume", "fork"] {
        let response = server.post(&format!("{}/{change}", status_url(&job))).send().await;
        assert_eq!(response.problem(), (409, "payload-purged".to_owned()), "{change}");
    }
}
