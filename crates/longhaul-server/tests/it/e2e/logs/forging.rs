//! Texts that mean something to a log or a browser, through the real binary.

use longhaul_client::SubmitOptions;
use longhaul_client::wire::SubmitRequest;
use serde_json::{Value, json};

use crate::api::hostile_texts::encoded;
use crate::e2e::submit::end;
use crate::harness::Installation;
use crate::harness::raw_http;

const FORGED: &str = "\n{\"level\":\"ERROR\",\"message\":\"forged\"}\r\nforged line \u{1b}[2J <script>alert(1)</script>";

/// A server's whole log at its most talkative, after the canary went everywhere it can go; and
/// its front page.
async fn visit(format: &str) -> (String, String) {
    let install = Installation::with(&format!("[log]\nlevel = \"trace\"\nformat = \"{format}\"\n"));
    let server = install.start().await;
    let client = install.client();
    for input in [json!({"fail": FORGED}), json!({"result": FORGED}), json!({FORGED: 1})] {
        let mut request = SubmitRequest::new("demo", &input).unwrap();
        request.max_attempts = Some(1);
        // Labels with control characters are rejected.
        let label: String = FORGED.chars().filter(|c| !c.is_control()).collect();
        request.labels.insert(label.clone(), label);
        let job = client.submit(&request, &SubmitOptions::default()).await.unwrap();
        end(&client, &job.job_id).await;
    }
    let encoded = encoded(FORGED);
    for (call, fields, body) in [
        (format!("GET /{encoded}"), vec![], String::new()),
        (format!("GET /v1/jobs/{encoded}?{encoded}={encoded}"), vec![], String::new()),
        (format!("GET /v1/jobs?label.{encoded}={encoded}"), vec![], String::new()),
        (format!("POST /v1/kinds/{encoded}/jobs"), vec![], "1".to_owned()),
        (format!("POST /v1/queues/{encoded}/pause"), vec![], String::new()),
        ("POST /v1/jobs".to_owned(), vec![], json!({"kind": FORGED, "input": 1}).to_string()),
        (
            "POST /v1/jobs".to_owned(),
            vec![("x-request-id", "{\"message\":\"forged\"}")],
            "{".into(),
        ),
        (
            "GET /".to_owned(),
            vec![("x-request-id", "\u{1b}[2J"), ("user-agent", "forged")],
            String::new(),
        ),
        ("<script>forged</script> /".to_owned(), vec![], String::new()),
    ] {
        let response = raw_http::send(install.address(), &call, &fields, &body).await.unwrap();
        assert!(response.status < 500, "{call}: {response:?}");
    }
    let page = raw_http::send(install.address(), "GET /", &[], "").await.unwrap().body;
    (server.sigterm().await.stderr, page)
}

#[tokio::test]
async fn json_log_cannot_be_forged_by_callers() {
    let (log, page) = visit("json").await;
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_ne!(line["message"], "forged");
    }
    assert_eq!(page.matches("<script").count(), 1, "only our own: {page}");
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
}

#[tokio::test]
async fn pretty_log_escapes_newlines_and_control_characters() {
    let (log, _) = visit("pretty").await;
    assert!(!log.contains('\u{1b}'), "{log:?}");
    for line in log.lines() {
        assert!(line.starts_with(|c: char| c.is_ascii_digit()), "{line:?} begins with no time");
    }
}
