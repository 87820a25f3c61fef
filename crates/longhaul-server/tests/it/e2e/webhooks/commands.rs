//! Webhooks by hand: `longhaul endpoints`, `longhaul deliveries`, `longhaul submit --webhook`, and
//! `longhaul listen` at the other end.

use std::process::Stdio;

use serde_json::Value;

use super::LOOPBACK;
use crate::e2e::listen::Listening;
use crate::harness::{CommandOutput, Installation, LONGHAUL, output_of};

async fn run(install: &Installation, args: &[&str]) -> CommandOutput {
    let mut command = install.command(LONGHAUL);
    command.args(args).env("LONGHAUL_SERVER", install.url()).stdin(Stdio::null());
    let ran = output_of(command).await.unwrap();
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    ran
}

/// Runs a command with `--json` and returns its output.
async fn said(install: &Installation, args: &[&str]) -> Value {
    let ran = run(install, &[args, &["--json"]].concat()).await;
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Submits a job and returns the prefix of the line about its end.
async fn submit(install: &Installation, args: &[&str]) -> String {
    let args = [&["submit", "demo", r#"{"result": 1}"#], args].concat();
    let job = run(install, &args).await.out;
    format!("job.completed  {}  completed  msg_", job.trim())
}

#[tokio::test]
async fn cli_creates_tests_rotates_disables_and_deletes_an_endpoint() {
    let install = Installation::with(LOOPBACK);
    let _server = install.start().await;
    let nowhere = "http://127.0.0.1:9/hook";
    let create = ["endpoints", "create", nowhere, "--description", "billing"];
    let made = said(&install, &[&create[..], &["--event", "job.completed"]].concat()).await;
    let (id, secret) = (text(&made, "id"), text(&made, "secret"));
    let mut listening = Listening::start(&install, &["--secret", secret]).await;
    let url = format!("http://{}/hook", listening.address);
    run(&install, &["endpoints", "set", id, "--url", &url]).await;
    let list = run(&install, &["endpoints", "list"]).await.out;
    for shown in [id, &url, "job.completed", "enabled", "billing"] {
        assert!(list.contains(shown), "{list}");
    }
    assert!(!list.contains(secret), "{list}");

    let test = run(&install, &["endpoints", "test", id]).await.out;
    assert!(test.contains("endpoint.test to "), "{test}");
    let line = listening.line().await;
    assert!(line.starts_with("endpoint.test  "), "{line}");
    assert!(line.ends_with("  signature ok  responded 200"), "{line}");

    let told = submit(&install, &[]).await;
    let line = listening.line().await;
    assert!(line.starts_with(&told), "{line}");
    assert!(line.ends_with("  signature ok  responded 200"), "{line}");

    // For a while what is sent is signed with the former secret too.
    let rotated = run(&install, &["endpoints", "rotate", id, "--overlap", "1h"]).await;
    assert!(rotated.out.starts_with("whsec_") && rotated.out.trim() != secret, "{rotated:?}");
    assert!(rotated.err.contains("it is not shown again"), "{rotated:?}");
    let told = submit(&install, &[]).await;
    let line = listening.line().await;
    assert!(line.starts_with(&told) && line.contains("  signature ok  "), "{line}");
    run(&install, &["endpoints", "rotate", id, "--overlap", "0s"]).await;
    let told = submit(&install, &[]).await;
    let line = listening.line().await;
    assert!(line.starts_with(&told) && line.contains("  signature WRONG "), "{line}");

    let disabled = run(&install, &["endpoints", "disable", id]).await.out;
    assert!(disabled.contains("disabled"), "{disabled}");
    submit(&install, &["--wait"]).await;
    let enabled = run(&install, &["endpoints", "enable", id]).await.out;
    assert!(enabled.contains("enabled"), "{enabled}");
    let told = submit(&install, &[]).await;
    let line = listening.line().await;
    assert!(line.starts_with(&told), "nothing of the job before: {line}");

    let deleted = run(&install, &["endpoints", "delete", id]).await.out;
    assert_eq!(deleted, format!("{id}  deleted\n"));
    let none = run(&install, &["endpoints"]).await;
    assert!(none.err.contains("no endpoints"), "{none:?}");
}

#[tokio::test]
async fn cli_lists_and_resends_deliveries_of_a_job_webhook() {
    let install = Installation::with(LOOPBACK);
    let _server = install.start().await;
    let secret = run(&install, &["endpoints", "secret"]).await.out;
    let mut listening = Listening::start(&install, &["--secret", secret.trim()]).await;
    let url = format!("http://{}/", listening.address);
    let submitted = ["submit", "demo", r#"{"result": 1}"#, "--webhook", &url];
    let job = run(&install, &submitted).await.out.trim().to_owned();
    let mut lines = Vec::new();
    for event in ["job.pending", "job.running", "job.completed"] {
        let line = listening.line().await;
        assert!(line.starts_with(&format!("{event}  {job}  ")), "{line}");
        assert!(line.ends_with("  signature ok  responded 200"), "{line}");
        lines.push(line);
    }

    let list = said(&install, &["deliveries", "list", "--job", &job]).await;
    let deliveries = list["deliveries"].as_array().unwrap();
    assert_eq!(deliveries.len(), 3, "{list}");
    let first = &deliveries[2];
    let (id, message) = (text(first, "deliveryId"), text(first, "messageId"));
    assert!(lines[0].contains(message), "{lines:?} {first}");
    let table = run(&install, &["deliveries"]).await.out;
    assert!(table.contains(id) && table.contains(&job), "{table}");
    let shown = run(&install, &["deliveries", "get", id]).await.out;
    assert!(shown.contains("job.pending to ") && shown.contains(message), "{shown}");
    assert!(shown.contains(": delivered") && shown.contains("  200  "), "{shown}");
    run(&install, &["deliveries", "resend", id]).await;
    let again = listening.line().await;
    assert_eq!(again, lines[0], "the same once more");

    // With a secret of its own.
    let own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut listening = Listening::start(&install, &["--secret", own]).await;
    let url = format!("http://{}/", listening.address);
    submit(&install, &["--webhook", &url, "--webhook-secret", own]).await;
    assert!(listening.line().await.contains("  signature ok  "));
}
