use axum::http::{Method, StatusCode};
use longhaul::job::Json;
use longhaul::{Ctx, JobError, Kind};
use longhaul_kinds::command::{CommandKind, Program};
use serde_json::{Value, json};

use super::browser::Browser;
use crate::harness::{TestResponse, TestServer};

/// A form as a browser sends it in parts; a file comes last.
async fn send(
    browser: &Browser<'_>,
    kind: &str,
    fields: &[(&str, &str)],
    file: Option<(&str, &str)>,
) -> TestResponse {
    let token = browser.token(&format!("/ui/submit/{kind}")).await;
    let mut body = String::new();
    for (name, value) in [("token", token.as_str())].iter().chain(fields) {
        let head = format!("--line\r\ncontent-disposition: form-data; name=\"{name}\"");
        body = format!("{body}{head}\r\n\r\n{value}\r\n");
    }
    if let Some((name, text)) = file {
        let head = "--line\r\ncontent-disposition: form-data; name=\"payload\"";
        let kind = "content-type: text/plain";
        body = format!("{body}{head}; filename=\"{name}\"\r\n{kind}\r\n\r\n{text}\r\n");
    }
    body.push_str("--line--\r\n");
    let ask = browser.request(Method::POST, &format!("/ui/submit/{kind}"));
    ask.header("content-type", "multipart/form-data; boundary=line").body(body).send().await
}

async fn job_of(browser: &Browser<'_>, sent: &TestResponse) -> Value {
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.text());
    let path = sent.header("location").unwrap();
    let id = path.strip_prefix("/ui/jobs/").unwrap().split('?').next().unwrap();
    let job = browser.server.get(&format!("/v1/jobs/{id}")).send().await.json();
    browser.server.until(&job, |job| job["completedAt"].is_string()).await
}

#[tokio::test]
async fn submit_form_sends_json_with_all_options() {
    let server = TestServer::start().await;
    let browser = Browser::of(&server);
    assert!(browser.page("/ui/submit").await.contains("href=\"/ui/submit/echo\""));
    let fields = [
        ("as", "json"),
        ("input", " {\"z\": 1,\r\n \"a\": 12345678901234567890123} "),
        ("queue", "mail"),
        ("priority", "7"),
        ("max-attempts", "2"),
        ("idempotency-key", "order-7"),
        ("labels", "team=video\r\n env = prod\r\n"),
    ];
    let sent = send(&browser, "echo", &fields, Some(("", ""))).await;
    let job = job_of(&browser, &sent).await;
    assert_eq!(
        (
            &job["queue"],
            &job["priority"],
            &job["maxAttempts"],
            &job["idempotencyKey"],
            &job["labels"]
        ),
        (
            &json!("mail"),
            &json!(7),
            &json!(2),
            &json!("order-7"),
            &json!({"team": "video", "env": "prod"})
        )
    );
    let id = job["jobId"].as_str().unwrap();
    let input = server.get(&format!("/v1/jobs/{id}/input")).send().await;
    assert!(input.text().contains("12345678901234567890123"), "{}", input.text());
}

#[tokio::test]
async fn rejected_submit_form_is_shown_again_with_its_values() {
    let server = TestServer::start().await;
    let browser = Browser::of(&server);
    for (fields, said) in [
        (vec![("as", "json"), ("input", "{\"mine\": ")], "input is not JSON"),
        (vec![("as", "json"), ("input", "\"mine\""), ("priority", "high")], "priority"),
        (vec![("as", "json"), ("input", "\"mine\""), ("delay", "soon")], "delay"),
        (vec![("as", "json"), ("input", "\"mine\""), ("labels", "x")], "NAME=VALUE"),
        (vec![("as", "json"), ("input", "\"mine\""), ("queue", "a b")], "not a name"),
    ] {
        let sent = send(&browser, "echo", &fields, None).await;
        assert!(sent.status.is_client_error(), "{said}: {}", sent.status);
        let (_, shown) = sent.text().split_once("role=\"alert\"").unwrap();
        assert!(shown.contains(said) && shown.contains("mine"), "{said}: {shown}");
    }
    assert_eq!(browser.get("/ui/submit/nothing").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    let jobs = server.get("/v1/jobs").send().await.json();
    assert_eq!(jobs["jobs"], json!([]));
}

#[tokio::test]
async fn submit_form_uploads_a_payload() {
    let server = TestServer::with_payload_kinds().await;
    let browser = Browser::of(&server);
    assert!(browser.page("/ui/submit/copy").await.contains("type=\"file\""));
    assert!(!browser.page("/ui/submit/plain").await.contains("type=\"file\""));
    let fields = [("as", "json"), ("input", "null")];
    let sent = send(&browser, "copy", &fields, Some(("notes.txt", "seven b"))).await;
    let job = job_of(&browser, &sent).await;
    assert_eq!((&job["status"], &job["result"]), (&json!("completed"), &json!(7)), "{job}");
}

const SCHEMA: &str = r#"{"type":"object","required":["source"],"properties":{
    "source":{"type":"string","format":"text","description":"<b>What</b> to draw."},
    "format":{"enum":["svg","png"]},"pages":{"type":"integer"},"scale":{"type":"number"},
    "fast":{"type":"boolean"},"options":{"type":"object"}}}"#;

async fn with_schema() -> TestServer {
    let same = |_: Ctx, input: Json| async move { Ok::<_, JobError>(input) };
    TestServer::with_kinds([Kind::new("draw", same).input_schema(SCHEMA)]).await
}

#[tokio::test]
async fn submit_form_has_fields_of_the_kind_schema() {
    let server = with_schema().await;
    let browser = Browser::of(&server);
    let page = browser.page("/ui/submit/draw").await;
    for (label, field) in
        [("source", "<textarea"), ("format", "<select"), ("pages", "type=\"number\"")]
    {
        assert!(page.contains(&format!("for=\"input.{label}\"")) && page.contains(field), "{page}");
    }
    assert!(page.contains("&lt;b&gt;What&lt;/b&gt; to draw."), "{page}");
    let fields = [
        ("input.source", "a\r\nb"),
        ("input.format", "png"),
        ("input.pages", "3"),
        ("input.scale", "1.5"),
        ("input.fast", "true"),
        ("input.options", "{\"theme\": \"dark\"}"),
    ];
    let job = job_of(&browser, &send(&browser, "draw", &fields, None).await).await;
    assert_eq!(
        job["result"],
        json!({"source": "a\nb", "format": "png", "pages": 3, "scale": 1.5, "fast": true, "options": {"theme": "dark"}})
    );
    let job = job_of(
        &browser,
        &send(&browser, "draw", &[("input.source", "x"), ("input.pages", "")], None).await,
    )
    .await;
    assert_eq!(job["result"], json!({"source": "x"}), "what is left empty is left out");
    let wrong =
        send(&browser, "draw", &[("input.source", "x"), ("input.pages", "many")], None).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn submit_form_accepts_json_for_a_kind_with_a_schema() {
    let server = with_schema().await;
    let browser = Browser::of(&server);
    assert!(browser.page("/ui/submit/draw?as=json").await.contains("name=\"input\""));
    let sent = send(&browser, "draw", &[("as", "json"), ("input", "[1]")], None).await;
    assert_eq!(job_of(&browser, &sent).await["result"], json!([1]));
}

#[tokio::test]
async fn submit_pages_name_programs_without_their_folders() {
    let program = Program::Single { argv: vec!["/opt/hidden/resize".to_owned()] };
    let kind = CommandKind::new("resize", program, "work").build().unwrap();
    let (server, admin) = TestServer::builder().require_keys().kind(kind).start_with_key().await;
    let browser = Browser::with_scopes(&server, &admin, &["submit", "read"]).await;
    for path in ["/ui/submit", "/ui/submit/resize", "/"] {
        let page = browser.page(path).await;
        assert!(!page.contains("/opt"), "{path}: {page}");
        assert!(path == "/" || page.contains("runs resize"), "{path}: {page}");
    }
}
