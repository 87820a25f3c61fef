//! The command line against a real server.

use std::process::Stdio;

use longhaul_client::wire::{Job, Status};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::redact::redact;
use super::submit::{end, submit, until};
use super::watch::{legal_history, saw_all};
use crate::harness::{CommandOutput, Installation, LONGHAUL, output_of};

/// `longhaul` with these arguments, for the server of this install.
fn command(install: &Installation, args: &[&str]) -> Command {
    let mut command = install.command(LONGHAUL);
    command.args(args).env("LONGHAUL_SERVER", install.url()).stdin(Stdio::null());
    command
}

async fn run(install: &Installation, args: &[&str]) -> CommandOutput {
    output_of(command(install, args)).await.unwrap()
}

/// Runs it and returns its output, which must be all that there is.
async fn out(install: &Installation, args: &[&str]) -> String {
    let ran = run(install, args).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}: {ran:?}");
    ran.out
}

/// Returns stdout, then stderr.
fn shown(install: &Installation, ran: &CommandOutput) -> String {
    redact(&format!("{}{}", ran.out, ran.err)).replace(&install.url(), "SERVER")
}

#[tokio::test]
async fn cli_exit_codes_distinguish_success_failure_usage_and_rejection() {
    let install = Installation::new();
    let server = install.start().await;
    let done = run(&install, &["submit", "demo", r#"{"result": [1, 2]}"#, "--wait"]).await;
    assert_eq!((done.code, done.out.as_str()), (Some(0), "[\n  1,\n  2\n]\n"), "{done:?}");
    let failing = ["submit", "demo", r#"{"fail": "no luck"}"#, "--max-attempts", "1", "--wait"];
    let failed = run(&install, &failing).await;
    assert_eq!((failed.code, failed.out.as_str()), (Some(1), ""), "{failed:?}");
    assert!(failed.err.contains("no luck"), "{failed:?}");
    assert_eq!(run(&install, &["submit", "demo", "{not json}"]).await.code, Some(2));
    assert_eq!(run(&install, &["submit"]).await.code, Some(2));
    let refused = run(&install, &["submit", "no-such-kind"]).await;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.err.contains("unknown-kind") && refused.err.contains("longhaul kinds"),
        "{refused:?}"
    );
    assert_eq!(run(&install, &["get", "01KA3V8J5T0000000000000000"]).await.code, Some(3));
    server.sigterm().await;
    assert_eq!(run(&install, &["list"]).await.code, Some(3));
}

#[tokio::test]
async fn every_cli_command_supports_json_output() {
    let install = Installation::new();
    let _server = install.start().await;
    let ask = async |args: &[&str]| -> Vec<Value> {
        let text = out(&install, &[args, &["--json"]].concat()).await;
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let jobs = ask(&["submit", "demo", r#"{"steps": 2, "result": 7}"#, "--wait"]).await;
    let done = jobs[0]["jobId"].as_str().unwrap();
    assert_eq!((jobs.len(), &jobs[0]["status"]), (1, &json!("completed")));
    assert_eq!(ask(&["get", done]).await[0], jobs[0]);
    assert_eq!(ask(&["get", done, "--steps"]).await[0]["steps"][1]["name"], "step-2");
    assert_eq!(ask(&["result", done]).await, [7]);
    assert_eq!(ask(&["watch", done]).await.last().unwrap()["status"], "completed");
    assert_eq!(ask(&["list"]).await[0]["jobs"][0]["jobId"], done);
    assert_eq!(ask(&["kinds"]).await[0]["kinds"][0]["name"], "demo");
    let replica = &ask(&["replicas"]).await[0]["replicas"][0];
    assert_eq!((&replica["role"], &replica["alive"]), (&json!("all"), &json!(true)));

    let usage = &ask(&["usage", "--from", "2026-01-01", "--to", "2026-01-02"]).await[0];
    assert_eq!((&usage["rows"], &usage["total"]["jobs"]), (&json!([]), &json!(0)));
    let usage = &ask(&["usage"]).await[0]["total"];
    assert_eq!((&usage["jobs"], &usage["steps"]), (&json!(1), &json!(2)));

    let later = ask(&["submit", "demo", "--delay", "1h", "--label", "team=a"]).await;
    let later = later[0]["jobId"].as_str().unwrap();
    assert_eq!(ask(&["list", "--label", "team=a"]).await[0]["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&["queues"]).await[0]["queues"][0]["name"], "default");
    assert_eq!(ask(&["queues", "pause", "default"]).await[0]["paused"], true);
    assert_eq!(ask(&["queues", "resume", "default"]).await[0]["paused"], false);
    assert_eq!(ask(&["cancel", later]).await[0]["status"], "cancelled");
    assert_eq!(ask(&["resume", later]).await[0]["status"], "pending");
    let fork = &ask(&["fork", done, "--from-step", "step-2"]).await[0];
    assert_eq!(fork["forkedFrom"], done);
    let fork = fork["jobId"].as_str().unwrap();
    assert_eq!(ask(&["result", fork, "--wait"]).await, [7]);
    assert_eq!(ask(&["purge", done]).await[0], json!({"jobId": done, "purged": true}));

    let gone = run(&install, &["get", done, "--json"]).await;
    assert_eq!(gone.code, Some(3));
    let error: Value = serde_json::from_str(&gone.err).unwrap();
    assert_eq!(error["error"]["problem"]["status"], 410, "{error}");
}

#[tokio::test]
async fn cli_prints_readable_job_details() {
    let install = Installation::with("[render]\nworkers = 2\n");
    let _server = install.start().await;
    let see = async |args: &[&str]| shown(&install, &run(&install, args).await);

    insta::assert_snapshot!(see(&["kinds"]).await, @"
    KIND  QUEUE  ATTEMPTS  TIMEOUT  CONCURRENCY
    demo  default  3  [duration]  4
    render  render  3  [duration]  2
    ");
    let args = [
        "submit",
        "demo",
        r#"{"steps": 2, "result": {"n": 1}}"#,
        "--label",
        "team=a",
        "--key",
        "order-4711",
        "--wait",
    ];
    let waited = see(&args).await;
    let told: Vec<&str> = waited.lines().filter(|line| !line.contains("running")).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    {
      "n": 1
    }
    [time]  ○ pending
    ✓ demo [id] completed in [duration]
    "#);
    let done = end(&install.client(), &newest(&install).await).await.job_id;
    insta::assert_snapshot!(see(&["get", &done, "--steps"]).await, @r#"
    ✓ completed  demo [id]

      progress  ━━━━━━━━━━━━━━━━━━━━━━━━  2/2  step 2 of 2
      attempt  1 of 3
      queue  default
      labels  team=a
      key  order-4711
      created  [duration] ago  [time]
      started  [duration] ago  [time]
      finished  [duration] ago  [time]
      took  [duration]
      expires  in [duration]  [time]

      result
    {
      "n": 1
    }

    STEP  ATTEMPT  TOOK  OUTPUT
    step-1  1  [duration]  null
    step-2  1  [duration]  null
    "#);
    insta::assert_snapshot!(see(&["result", &done]).await, @r#"
    {
      "n": 1
    }
    "#);
    insta::assert_snapshot!(see(&["list"]).await, @"
    JOB  KIND  STATUS  ATTEMPT  PROGRESS  AGE  LABELS
    [id]  demo  ✓ completed  1/3  2/2  [duration]  team=a
    ");
    insta::assert_snapshot!(see(&["fork", &done, "--from-step", "nothing"]).await, @r#"error: the job has no finished step "nothing" (422 step-unknown)"#);

    let failing = ["submit", "demo", r#"{"fail": "no luck"}"#, "--max-attempts", "1", "--wait"];
    let failed = see(&failing).await;
    let told: Vec<&str> = failed.lines().filter(|line| !line.contains("running")).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    [time]  ○ pending
    ✗ demo [id] failed in [duration]
      no luck (failed)
      resume after its last finished step: longhaul resume [id] --server SERVER
    ");
    insta::assert_snapshot!(see(&["queues"]).await, @"no queues with unfinished jobs, none paused");
    let later = out(&install, &["submit", "demo", "--delay", "1h"]).await;
    insta::assert_snapshot!(see(&["queues"]).await, @"
    QUEUE  STATE  PENDING  RUNNING  MAX  RATE  OLDEST DUE
    default  open  1  0  any  any
    ");
    insta::assert_snapshot!(see(&["result", later.trim()]).await, @"
    error: job [id] is pending, not finished yet
     hint: `longhaul result [id] --wait` waits for it
    ");
    insta::assert_snapshot!(see(&["cancel", later.trim()]).await, @"[id]  ⊘ cancelled");
    insta::assert_snapshot!(see(&["resume", &done]).await, @"
    error: cannot resume a job that is completed (409 wrong-status)
     hint: `longhaul get` shows the status of the job
    ");
    insta::assert_snapshot!(see(&["purge", &done]).await, @"[id]  purged");
    insta::assert_snapshot!(see(&["get", &done]).await, @"
    error: the job was deleted (410 job-gone)
     hint: the job was purged or its retention ended; only its id is stored
    ");
}

async fn newest(install: &Installation) -> String {
    let list = install.client().list(&longhaul_client::ListRequest::default()).await.unwrap();
    list.jobs[0].job_id.clone()
}

#[tokio::test]
async fn cli_watch_reconnects_after_the_server_was_killed() {
    let install = Installation::new();
    let server = install.start().await;
    let job = submit(&install.client(), "demo", json!({"steps": 40, "sleep": "20ms"})).await;
    let mut watching = command(&install, &["watch", &job.job_id, "--json"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut seen: Vec<Job> = Vec::new();
    let mut server = Some(server);
    while let Some(line) = lines.next_line().await.unwrap() {
        seen.push(serde_json::from_str(&line).unwrap());
        if seen.len() == 3
            && let Some(first) = server.take()
        {
            first.kill9().await;
            server = Some(install.start().await);
        }
    }
    assert_eq!(watching.wait().await.unwrap().code(), Some(0));
    let history = legal_history(&install, &job.job_id).await;
    assert_eq!(history.last().unwrap().attempt, 2, "the kill came in the middle");
    saw_all(&seen, &history);
    drop(server);
}

#[tokio::test]
async fn cli_submit_reads_input_from_argument_file_or_stdin() {
    let install = Installation::new();
    let _server = install.start().await;
    std::fs::write(install.path().join("input.json"), r#"{"result": "from a file"}"#).unwrap();
    let file = ["submit", "demo", "@input.json", "--wait", "--json"];
    let job: Value = serde_json::from_str(&out(&install, &file).await).unwrap();
    assert_eq!(job["result"], "from a file");

    let mut piped = command(&install, &["submit", "demo", "-", "--wait", "--json"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = piped.stdin.take().unwrap();
    stdin.write_all(br#"{"result": "from stdin"}"#).await.unwrap();
    drop(stdin);
    let output = piped.wait_with_output().await.unwrap();
    let job: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(job["result"], "from stdin");

    let none = run(&install, &["submit", "demo", "@nowhere.json"]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
}

/// Copies its payload to an artifact and returns the size.
const COPY: &str = r#"
[kinds.copy]
payload = true
command = ["sh", "-c", 'cp "$LONGHAUL_PAYLOAD" "$LONGHAUL_ARTIFACTS/copy"; wc -c < "$LONGHAUL_PAYLOAD"']
"#;

#[tokio::test]
async fn cli_submit_reads_a_payload_from_stdin() {
    let install = Installation::with(COPY);
    let _server = install.start().await;
    let mut piped = command(&install, &["submit", "copy", "--payload", "-", "--wait", "--json"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = piped.stdin.take().unwrap();
    stdin.write_all("x".repeat(100_000).as_bytes()).await.unwrap();
    drop(stdin);
    let output = piped.wait_with_output().await.unwrap();
    let job: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&job["result"], &job["status"]), (&json!(100_000), &json!("completed")));
}

#[tokio::test]
async fn cli_download_resumes_after_the_server_was_killed() {
    let install = Installation::with(COPY);
    let server = install.start().await;
    // More than the system keeps between a server that sends and a reader that does not read.
    let bytes: Vec<u8> = (0..=250).cycle().take(24 << 20).collect();
    std::fs::write(install.path().join("large"), &bytes).unwrap();
    let submitted = out(&install, &["submit", "copy", "--payload", "large", "--json"]).await;
    let job: Job = serde_json::from_str(&submitted).unwrap();
    out(&install, &["result", &job.job_id, "--wait", "--json"]).await;

    let mut reading = command(&install, &["artifacts", &job.job_id, "copy"]);
    let mut reading = reading.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = reading.stdout.take().unwrap();
    let mut read = vec![0; 1024];
    stdout.read_exact(&mut read).await.unwrap();
    server.kill9().await;
    let _server = install.start_after_kill().await;
    stdout.read_to_end(&mut read).await.unwrap();
    assert!(reading.wait().await.unwrap().success());
    assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
}

#[tokio::test]
async fn ctrl_c_stops_waiting_without_cancelling_the_job() {
    let install = Installation::new();
    let _server = install.start().await;
    let job = submit(&install.client(), "demo", json!({"sleep": "10m"})).await;
    let mut watching = command(&install, &["watch", &job.job_id]);
    let mut watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().is_some());
    let pid = i32::try_from(watching.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    // A line may be out before the handler is in: a signal that comes then ends it as well.
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = watching.wait_with_output().await.unwrap();
    assert!([Some(130), None].contains(&output.status.code()), "{output:?}");
    let still = until(&install.client(), &job.job_id, |job| job.status == Status::Running).await;
    assert_eq!(still.phase, None);
}

#[tokio::test]
async fn cli_completions_are_valid_bash() {
    let install = Installation::new();
    let script = out(&install, &["completions", "bash"]).await;
    let path = install.path().join("completions.bash");
    std::fs::write(&path, script).unwrap();
    let mut bash = install.command("bash");
    bash.args(["-c", "source \"$0\" && complete -p longhaul"]).arg(&path);
    let bash = output_of(bash).await.unwrap();
    assert_eq!((bash.code, bash.err.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn cli_openapi_prints_the_served_document() {
    let install = Installation::new();
    let own = output_of({
        let mut command = install.command(LONGHAUL);
        command.args(["openapi", "--json"]);
        command
    });
    let own: Value = serde_json::from_str(&own.await.unwrap().out).unwrap();
    let _server = install.start().await;
    let served = crate::harness::raw_http::send(install.address(), "GET /openapi.json", &[], "")
        .await
        .unwrap();
    assert_eq!(own, served.json());
    let asked: Value = serde_json::from_str(&out(&install, &["openapi", "--json"]).await).unwrap();
    assert_eq!(own, asked);
}

#[tokio::test]
async fn separate_roles_on_sqlite_are_rejected_with_a_hint() {
    let install = Installation::new();
    for role in ["api", "worker"] {
        let refused = run(&install, &["serve", "--role", role, "--database", "memory"]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("postgres://"), "{refused:?}");
    }
}

#[tokio::test]
async fn doctor_distinguishes_a_sound_installation_from_a_damaged_one() {
    let install = Installation::new();
    let address = install.address().to_string();
    let before = run(&install, &["doctor", "--listen", &address]).await;
    assert_eq!(before.code, Some(0), "{before:?}");
    let server = install.start().await;
    let address = install.address().to_string();
    let beside = run(&install, &["doctor", "--listen", &address]).await;
    assert_eq!(beside.code, Some(0), "{beside:?}");
    assert!(beside.out.contains("a server is ready at"), "{beside:?}");
    server.sigterm().await;
    std::fs::write(install.database(), "this was a database once").unwrap();
    let damaged = run(&install, &["doctor", "--listen", &address, "--json"]).await;
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
    let report: Value = serde_json::from_str(&damaged.out).unwrap();
    assert_eq!(report["ok"], false);
    let database =
        report["checks"].as_array().unwrap().iter().find(|one| one["check"] == "database");
    assert_eq!(database.unwrap()["verdict"], "bad", "{report}");
}
