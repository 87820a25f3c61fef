//! Payloads, artifacts and receipts against a real server in this process.

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use clap::Parser as _;
use longhaul_client::wire::{Artifact, Job, Receipt};
use longhaul_server::config::{Config, Flags, Sources};
use longhaul_server::server::{Server, StopReason};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::testing::{CommandOutput, completed, run_against, run_without_server};
use super::super::{Cli, Exit};
use super::{FakeServer, GET, ID, SUBMIT, json, refusal};

/// Copies its payload to an artifact and returns its size.
const CONFIG: &str = r#"
[limits]
payload_bytes_max = "2MiB"

[kinds.copy]
payload = true
command = ["sh", "-c", '''
cp "$LONGHAUL_PAYLOAD" "$LONGHAUL_ARTIFACTS/copy.txt"
wc -c < "$LONGHAUL_PAYLOAD"
''']

[kinds.reject]
payload = true
command = ["false"]
max_attempts = 1
"#;

/// A server with its own data directory.
struct RunningServer {
    folder: tempfile::TempDir,
    address: String,
    stop: CancellationToken,
    running: JoinHandle<StopReason>,
}

impl RunningServer {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("longhaul.toml");
        std::fs::write(&file, CONFIG).unwrap();
        let flags = Flags {
            listen: Some("127.0.0.1:0".to_owned()),
            data: Some(folder.path().join("data").to_str().unwrap().to_owned()),
            ..Flags::default()
        };
        let sources =
            Sources { file: Some(file), flags, replica: "here".to_owned(), ..Sources::default() };
        let (config, _) = Config::load(&sources).unwrap();
        let server = Server::start(&config).await.unwrap();
        let address = format!("http://{}", server.address().unwrap());
        let stop = CancellationToken::new();
        let running = tokio::spawn(server.run(stop.clone()));
        Self { folder, address, stop, running }
    }

    async fn run(&self, args: &[&str]) -> CommandOutput {
        run_against(&self.address, args).await
    }

    /// Creates a file of this size and returns its path.
    fn file(&self, name: &str, bytes: usize) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, "x".repeat(bytes)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn end(self) {
        self.stop.cancel();
        assert_eq!(self.running.await.unwrap(), StopReason::Stopped);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn payload_is_uploaded_and_artifact_downloaded() {
    let server = RunningServer::start().await;
    let payload = server.file("talk.txt", 1_500_000);
    let args = ["submit", "copy", "--payload", &payload, "--key", "k", "--wait", "--json"];
    let CommandOutput { exit, out, err } = server.run(&args).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""), "{out}");
    let job: Job = serde_json::from_str(&out).unwrap();
    assert_eq!(job.result.unwrap().as_str(), "1500000");
    // The same again is the same job.
    let CommandOutput { out, .. } = server.run(&args).await;
    assert_eq!(serde_json::from_str::<Job>(&out).unwrap().job_id, job.job_id);

    let CommandOutput { exit, out, .. } = server.run(&["artifacts", &job.job_id]).await;
    assert_eq!(exit, Exit::Done);
    insta::assert_snapshot!(out, @"
    NAME      TYPE        SIZE
    copy.txt  text/plain  1.43 MiB
    ");
    let CommandOutput { out, .. } = server.run(&["artifacts", &job.job_id, "--json"]).await;
    let listed: Value = serde_json::from_str(&out).unwrap();
    let url = format!("/v1/jobs/{}/artifacts/copy.txt", job.job_id);
    assert_eq!(listed["artifacts"][0]["url"], url);

    let CommandOutput { exit, out, err } =
        server.run(&["artifacts", &job.job_id, "copy.txt"]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert_eq!(out, "x".repeat(1_500_000));
    let target = server.path("down.txt");
    let args = ["artifacts", &job.job_id, "copy.txt", "-o", text(&target), "--json"];
    let CommandOutput { exit, out, .. } = server.run(&args).await;
    assert_eq!(exit, Exit::Done);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["size"], 1_500_000);
    assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(&payload).unwrap());
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_payload_prints_the_reason() {
    let server = RunningServer::start().await;
    let large = server.file("large.bin", 20_000_000);
    let CommandOutput { exit, err, .. } =
        server.run(&["submit", "copy", "--payload", &large]).await;
    assert_eq!(exit, Exit::Server, "{err}");
    insta::assert_snapshot!(err, @"
    error: the payload has more than 2097152 bytes (payload_bytes_max) (413 payload-too-large)
     hint: the limits are set in the server's configuration under [limits]
    ");
    let small = server.file("small.bin", 1);
    let CommandOutput { exit, err, .. } =
        server.run(&["submit", "demo", "--payload", &small]).await;
    assert_eq!(exit, Exit::Server, "{err}");
    insta::assert_snapshot!(err, @"error: kind demo does not accept payloads (422 validation)");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_shows_what_can_still_be_read() {
    let server = RunningServer::start().await;
    let payload = server.file("talk.txt", 5);
    let args = ["submit", "copy", "--payload", &payload, "--wait", "--json"];
    let CommandOutput { out, .. } = server.run(&args).await;
    let id = serde_json::from_str::<Job>(&out).unwrap().job_id;
    let CommandOutput { exit, out, .. } = server.run(&["receipt", &id]).await;
    assert_eq!(exit, Exit::Done);
    let first = out.lines().next().unwrap();
    assert!(first.ends_with(&format!("for job {id} can still be read.")), "{out}");

    server.run(&["purge", &id]).await;
    let CommandOutput { out, .. } = server.run(&["receipt", &id]).await;
    assert!(out.starts_with("Nothing stored for job "), "{out}");
    let CommandOutput { out, .. } = server.run(&["receipt", &id, "--json"]).await;
    let receipt: Receipt = serde_json::from_str(&out).unwrap();
    assert!(receipt.unreadable && receipt.job_gone, "{out}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_job_with_destroyed_payload_does_not_suggest_resume() {
    let server = RunningServer::start().await;
    let payload = server.file("talk.txt", 5);
    let args = ["submit", "reject", "--payload", &payload, "--wait"];
    let CommandOutput { exit, err, .. } = server.run(&args).await;
    assert_eq!(exit, Exit::JobFailed);
    assert!(err.contains("its payload is destroyed: longhaul receipt "), "{err}");
    assert!(!err.contains("longhaul resume"), "{err}");
    server.end().await;
}

#[tokio::test]
async fn payload_without_input_is_submitted_with_null() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cat.png");
    std::fs::write(&path, "meow").unwrap();
    let server = FakeServer::start(vec![json(SUBMIT, &completed())]).await;
    for (extra, said) in [
        (&[][..], "Content-Type: image/png"),
        (&["--payload-type", "x/cat"], "Content-Type: x/cat"),
        (&["[1]"], r#"{"kind":"graph","input":[1]}"#),
    ] {
        let args = [&["submit", "graph", "--payload", text(&path)], extra].concat();
        let CommandOutput { exit, out, err } = server.run(&args).await;
        assert_eq!((exit, out.trim(), err.as_str()), (Exit::Done, ID, ""));
        let requests = server.requests();
        assert!(requests.contains(said), "{requests}");
    }
    assert!(server.requests().contains(r#"{"kind":"graph","input":null}"#));
}

#[tokio::test]
async fn unreadable_payload_fails_before_sending() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for (args, said) in [
        (&["--payload", text(&missing)][..], "missing: No such file or directory"),
        (&["--payload", text(folder.path())], "it is a folder"),
        (&["--payload", "-", "-"], "cannot both come from stdin"),
        (&["--payload", "/dev/null", "--payload-type", "cat"], "is not a media type"),
    ] {
        let args = [&["submit", "graph"], args].concat();
        let CommandOutput { exit, err, .. } = run_without_server(&args).await;
        assert_eq!((exit, err.contains(said)), (Exit::Usage, true), "{err}");
    }
    let alone = ["longhaul", "submit", "graph", "--payload-type", "x/cat"];
    assert!(Cli::try_parse_from(alone).is_err());
}

#[tokio::test]
async fn storage_limit_error_suggests_purge() {
    let full =
        refusal(SUBMIT, StatusCode::TOO_MANY_REQUESTS, "stored-limit", "Too much is stored.");
    let server = FakeServer::start(vec![full]).await;
    let args = ["submit", "graph", "--payload", "/dev/null"];
    let CommandOutput { exit, err, .. } = server.run(&args).await;
    assert_eq!(exit, Exit::Server);
    insta::assert_snapshot!(err, @"
    error: Too much is stored. (429 stored-limit)
     hint: `longhaul purge` deletes finished jobs and frees storage
    ");
}

#[tokio::test]
async fn result_file_equals_stdout_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let server = FakeServer::start(vec![json(GET, &completed())]).await;
    for format in [&[][..], &["--json"]] {
        let printed = server.run(&[&["result", ID, "-o", "-"], format].concat()).await.out;
        let CommandOutput { exit, out, err } =
            server.run(&[&["result", ID, "-o", text(&path)], format].concat()).await;
        assert_eq!((exit, out.as_str(), err.as_str()), (Exit::Done, "", ""));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), printed);
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[tokio::test]
async fn artifacts_of_a_job_without_any_prints_a_note() {
    let server = FakeServer::start(vec![json(GET, &completed())]).await;
    let CommandOutput { exit, out, err } = server.run(&["artifacts", ID]).await;
    assert_eq!((exit, out.as_str(), err.trim()), (Exit::Done, "", "the job has no artifacts"));
    let CommandOutput { out, .. } = server.run(&["artifacts", ID, "--json"]).await;
    assert_eq!(out, "{\"artifacts\":[]}\n");
}

#[tokio::test]
async fn missing_artifact_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let call = "GET /v1/jobs/01KA3V8J5T0000000000000000/artifacts/a";
    let missing = refusal(call, StatusCode::NOT_FOUND, "artifact-not-found", "There is no a.");
    let server = FakeServer::start(vec![missing]).await;
    let CommandOutput { exit, err, .. } =
        server.run(&["artifacts", ID, "a", "-o", text(&path)]).await;
    assert_eq!(exit, Exit::Server);
    insta::assert_snapshot!(err, @"
    error: There is no a. (404 artifact-not-found)
     hint: `longhaul artifacts JOB` lists the artifacts of a job
    ");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn artifact_names_are_escaped_in_lists() {
    let artifact = Artifact {
        name: "\x1b[2J".to_owned(),
        content_type: "image/png".to_owned(),
        size: 1_572_864,
        url: String::new(),
    };
    let job = Job { artifacts: vec![artifact], ..completed() };
    let server = FakeServer::start(vec![json(GET, &job)]).await;
    let CommandOutput { out, .. } = server.run(&["artifacts", ID]).await;
    insta::assert_snapshot!(out, @r#"
    NAME       TYPE       SIZE
    \u001b[2J  image/png  1.50 MiB
    "#);
}

#[tokio::test]
async fn rotated_server_key_is_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.key");
    let before = longhaul::blob::Keyring::open(&file).unwrap();
    let CommandOutput { exit, out, err } =
        run_without_server(&["rotate-key", "--data", text(folder.path())]).await;
    assert_eq!(exit, Exit::Done, "{err}");
    let now = longhaul::blob::Keyring::open(&file).unwrap();
    assert_ne!(now.current_id(), before.current_id());
    let text_of_keys = std::fs::read_to_string(&file).unwrap();
    // The secret itself may have a '_' in it.
    let secret = text_of_keys.lines().next().unwrap().splitn(3, '_').nth(2).unwrap();
    assert!(!out.contains(secret) && !err.contains(secret));
    let out = out.replace(now.current_id(), "ID").replace(text(folder.path()), "FOLDER");
    insta::assert_snapshot!(out + &err, @"
    ID  is now the current key in FOLDER/server.key
    Running servers use it after a restart. Former keys stay in the file to decrypt existing data.
    ");

    let CommandOutput { exit, out, .. } =
        run_without_server(&["rotate-key", "--file", text(&file), "--json"]).await;
    assert_eq!(exit, Exit::Done);
    let id = longhaul::blob::Keyring::open(&file).unwrap().current_id().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["id"], id);
}

#[tokio::test]
async fn rotate_key_does_not_create_a_key_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.key");
    let CommandOutput { exit, err, .. } =
        run_without_server(&["rotate-key", "--file", text(&file)]).await;
    assert_eq!(exit, Exit::Usage);
    insta::assert_snapshot!(err.replace(text(folder.path()), "FOLDER"), @"
    error: no key file FOLDER/server.key
     hint: `longhaul serve` creates one at its first start
    ");
    assert!(!file.exists());
}
