//! Logs contain no job data.

mod forging;

use longhaul_client::SubmitOptions;
use longhaul_client::wire::SubmitRequest;
use serde_json::{Value, json};

use super::submit::end;
use crate::harness::Installation;
use crate::harness::raw_http;

const CANARY: &str = "canary-7f3a";

/// Returns the debug log of a server while jobs with the canary in every field come
/// and go.
async fn log(format: &str) -> String {
    let install = Installation::with(&format!(
        "[log]\nlevel = \"debug\"\nformat = \"{format}\"\n\
         [kinds.moan]\nmax_attempts = 1\n\
         command = [\"sh\", \"-c\", \"cat >&2; echo {CANARY}-stderr >&2; echo ::phase {CANARY} >&2; exit 1\"]\n\
         [kinds.babble]\ncommand = [\"sh\", \"-c\", \"echo {CANARY} is no JSON\"]\n"
    ));
    let server = install.start().await;
    let client = install.client();
    let mut ids = Vec::new();
    for (kind, input) in [
        ("demo", json!({"result": format!("{CANARY}-result")})),
        ("demo", json!({"fail": format!("{CANARY}-error")})),
        ("demo", json!({"unknown": format!("{CANARY}-input")})),
        ("moan", json!(format!("{CANARY}-input"))),
        ("babble", json!(format!("{CANARY}-input"))),
    ] {
        let key = format!("{CANARY}-key-{}", ids.len());
        let mut request = SubmitRequest::new(kind, &input).unwrap();
        request.max_attempts = Some(1);
        request.labels.insert("label".to_owned(), format!("{CANARY}-label"));
        let options = SubmitOptions { idempotency_key: Some(key), wait: None };
        let job = client.submit(&request, &options).await.unwrap();
        end(&client, &job.job_id).await;
        client.input(&job.job_id).await.unwrap();
        ids.push(job.job_id);
    }
    for (fields, body) in [
        (vec![("idempotency-key", CANARY)], format!("{{\"kind\":\"demo\",\"input\":{CANARY}}}")),
        (vec![("authorization", CANARY), ("x-api-key", CANARY)], format!("[\"{CANARY}\"]")),
        (vec![], json!({"kind": "demo", "input": {}, CANARY: 1}).to_string()),
    ] {
        let response =
            raw_http::send(install.address(), "POST /v1/jobs", &fields, &body).await.unwrap();
        assert!(response.status >= 400, "{response:?}");
    }
    let log = server.sigterm().await.stderr;
    for id in ids {
        assert!(log.contains(&id), "at this level it does log what becomes of jobs: {log}");
    }
    log
}

#[tokio::test]
async fn pretty_log_contains_no_job_data() {
    let log = log("pretty").await;
    assert!(!log.contains(CANARY), "{log}");
}

#[tokio::test]
async fn json_log_contains_no_job_data() {
    let log = log("json").await;
    assert!(!log.contains(CANARY), "{log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

#[tokio::test]
async fn log_names_the_client_behind_a_trusted_proxy() {
    let install = Installation::with(
        "[log]\nlevel = \"debug\"\nformat = \"json\"\n[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n",
    );
    let server = install.start().await;
    let fields = [("x-forwarded-for", "203.0.113.7"), ("x-request-id", "seen-by-a-proxy")];
    raw_http::send(install.address(), "GET /livez", &fields, "").await.unwrap();
    let log = server.sigterm().await.stderr;
    let line = log.lines().find(|line| line.contains("seen-by-a-proxy")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["span"]["client.address"], "203.0.113.7", "{line}");
}
