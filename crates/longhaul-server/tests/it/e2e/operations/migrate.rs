//! Moving up from one file to Postgres, and `migrate`, with the real binary.

use std::process::Stdio;

use longhaul_client::wire::Status;
use serde_json::{Value, json};

use crate::harness::TestDatabase;
use crate::harness::{CommandOutput, Installation, LONGHAUL, TestProcess, output_of};

async fn run(install: &Installation, args: &[&str]) -> CommandOutput {
    let mut command = install.command(LONGHAUL);
    command.args(args).env("LONGHAUL_SERVER", install.url()).stdin(Stdio::null());
    output_of(command).await.unwrap()
}

/// Runs a command with `--json` and returns its output.
async fn said(install: &Installation, args: &[&str]) -> Value {
    let ran = run(install, &[args, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}

async fn start_on(install: &Installation, database: &str) -> TestProcess {
    let mut serve = install.serve();
    serve.args(["--database", database]);
    install.wait_ready(TestProcess::spawn(serve)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_migrate_from_sqlite_to_postgres() {
    let (install, database) = (Installation::new(), TestDatabase::create().await);
    let server = install.start().await;
    let finished =
        run(&install, &["submit", "demo", r#"{"result": 42}"#, "--key", "k", "--wait"]).await;
    assert_eq!(finished.out, "42\n", "{finished:?}");
    run(&install, &["queues", "pause", "default"]).await;
    let waiting = said(&install, &["submit", "demo", r#"{"steps": 2, "result": "later"}"#]).await;
    let waiting = waiting["jobId"].as_str().unwrap().to_owned();
    let from = format!("sqlite:{}", install.database().display());
    let copy = ["copy", "--from", &from, "--to", &database.url()].map(str::to_owned);
    let copy: Vec<&str> = copy.iter().map(String::as_str).collect();

    let held = run(&install, &copy).await;
    assert_eq!(held.code, Some(1), "{held:?}");
    assert!(held.err.contains("another process has the database open"), "{held:?}");
    server.sigterm().await;

    let copied = said(&install, &copy).await;
    let counts = json!([copied["jobs"], copied["known"], copied["pausedQueues"]]);
    assert_eq!(counts, json!([2, 0, 1]), "{copied}");
    assert_eq!(copied["tenants"][0]["steps"], 1, "{copied}");
    let again = said(&install, &copy).await;
    assert_eq!(
        json!([again["jobs"], again["known"], again["tenants"]]),
        json!([0, 2, copied["tenants"]])
    );

    let server = start_on(&install, &database.url()).await;
    let known = said(&install, &["submit", "demo", r#"{"result": 42}"#, "--key", "k"]).await;
    let result = run(&install, &["result", known["jobId"].as_str().unwrap()]).await;
    assert_eq!((result.code, result.out.as_str()), (Some(0), "42\n"), "{result:?}");
    let job = install.client().job(&waiting, None).await.unwrap();
    assert_eq!(job.status, Status::Pending);
    let refused = run(&install, &copy).await;
    assert!(refused.err.contains("runs on the target"), "{refused:?}");
    run(&install, &["queues", "resume", "default"]).await;
    let result = run(&install, &["result", &waiting, "--wait"]).await;
    assert_eq!((result.code, result.out.as_str()), (Some(0), "\"later\"\n"), "{result:?}");
    server.sigterm().await;

    let refused = run(&install, &copy).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains(&waiting) && refused.err.contains("went on there"), "{refused:?}");
}

#[tokio::test]
async fn unsupported_database_copies_are_rejected() {
    let install = Installation::new();
    for (from, to) in [
        ("postgres://h/d", "sqlite:x.db"),
        ("sqlite:x.db", "sqlite:y.db"),
        ("memory", "postgres://h/d"),
        ("sqlite:missing.db", "postgres://h/d"),
    ] {
        let refused = run(&install, &["copy", "--from", from, "--to", to]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(!install.path().join("missing.db").exists(), "nothing is made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_prints_old_and_new_schema_versions() {
    let (install, database) = (Installation::new(), TestDatabase::create().await);
    let migrate = ["migrate", "--database", &database.url()].map(str::to_owned);
    let migrate: Vec<&str> = migrate.iter().map(String::as_str).collect();
    let first = said(&install, &migrate).await;
    assert_eq!(first["from"], 0, "{first}");
    assert!(first["to"].as_i64().unwrap() > 0, "{first}");
    let shown = run(&install, &migrate).await;
    assert!(shown.out.contains("is current"), "{shown:?}");
    assert!(!shown.out.contains('@'), "neither user nor password: {shown:?}");

    assert_eq!(run(&install, &["migrate"]).await.code, Some(2), "there is none yet");
    install.start().await.sigterm().await;
    let newest = said(&install, &["migrate"]).await;
    assert_eq!(newest["from"], newest["to"], "{newest}");
    let server = install.start().await;
    assert_eq!(run(&install, &["migrate"]).await.code, Some(1), "a server has it open");
    server.sigterm().await;
}
