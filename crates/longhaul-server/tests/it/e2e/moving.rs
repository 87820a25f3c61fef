//! Moving up from one file to Postgres, and `migrate`, with the real binary.

use std::process::Stdio;

use longhaul_client::wire::Status;
use serde_json::{Value, json};

use super::database::Database;
use super::home::{Home, LONGHAUL, Ran, Server, ran};

async fn run(home: &Home, args: &[&str]) -> Ran {
    let mut command = home.command(LONGHAUL);
    command.args(args).env("LONGHAUL_SERVER", home.url()).stdin(Stdio::null());
    ran(command).await.unwrap()
}

/// Runs it with `--json` and returns what it says.
async fn said(home: &Home, args: &[&str]) -> Value {
    let ran = run(home, &[args, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}

async fn start_on(home: &Home, database: &str) -> Server {
    let mut serve = home.serve();
    serve.args(["--database", database]);
    home.until_ready(Server::spawn(serve)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_move_up_from_one_file_to_postgres() {
    let (home, database) = (Home::new(), Database::create().await);
    let server = home.start().await;
    let finished =
        run(&home, &["submit", "demo", r#"{"result": 42}"#, "--key", "k", "--wait"]).await;
    assert_eq!(finished.out, "42\n", "{finished:?}");
    run(&home, &["queues", "pause", "default"]).await;
    let waiting = said(&home, &["submit", "demo", r#"{"steps": 2, "result": "later"}"#]).await;
    let waiting = waiting["jobId"].as_str().unwrap().to_owned();
    let from = format!("sqlite:{}", home.database().display());
    let copy = ["copy", "--from", &from, "--to", &database.url()].map(str::to_owned);
    let copy: Vec<&str> = copy.iter().map(String::as_str).collect();

    let held = run(&home, &copy).await;
    assert_eq!(held.code, Some(1), "{held:?}");
    assert!(held.err.contains("another process has the database open"), "{held:?}");
    server.sigterm().await;

    let copied = said(&home, &copy).await;
    let counts = json!([copied["jobs"], copied["known"], copied["pausedQueues"]]);
    assert_eq!(counts, json!([2, 0, 1]), "{copied}");
    assert_eq!(copied["tenants"][0]["steps"], 1, "{copied}");
    let again = said(&home, &copy).await;
    assert_eq!(
        json!([again["jobs"], again["known"], again["tenants"]]),
        json!([0, 2, copied["tenants"]])
    );

    let server = start_on(&home, &database.url()).await;
    let known = said(&home, &["submit", "demo", r#"{"result": 42}"#, "--key", "k"]).await;
    let result = run(&home, &["result", known["jobId"].as_str().unwrap()]).await;
    assert_eq!((result.code, result.out.as_str()), (Some(0), "42\n"), "{result:?}");
    let job = home.client().job(&waiting, None).await.unwrap();
    assert_eq!(job.status, Status::Pending);
    let refused = run(&home, &copy).await;
    assert!(refused.err.contains("runs on the target"), "{refused:?}");
    run(&home, &["queues", "resume", "default"]).await;
    let result = run(&home, &["result", &waiting, "--wait"]).await;
    assert_eq!((result.code, result.out.as_str()), (Some(0), "\"later\"\n"), "{result:?}");
    server.sigterm().await;

    let refused = run(&home, &copy).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains(&waiting) && refused.err.contains("went on there"), "{refused:?}");
}

#[tokio::test]
async fn copies_that_do_not_exist_are_refused() {
    let home = Home::new();
    for (from, to) in [
        ("postgres://h/d", "sqlite:x.db"),
        ("sqlite:x.db", "sqlite:y.db"),
        ("memory", "postgres://h/d"),
        ("sqlite:missing.db", "postgres://h/d"),
    ] {
        let refused = run(&home, &["copy", "--from", from, "--to", to]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(!home.path().join("missing.db").exists(), "nothing is made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_says_from_which_version_to_which() {
    let (home, database) = (Home::new(), Database::create().await);
    let migrate = ["migrate", "--database", &database.url()].map(str::to_owned);
    let migrate: Vec<&str> = migrate.iter().map(String::as_str).collect();
    let first = said(&home, &migrate).await;
    assert_eq!(first["from"], 0, "{first}");
    assert!(first["to"].as_i64().unwrap() > 0, "{first}");
    let shown = run(&home, &migrate).await;
    assert!(shown.out.contains("which is the newest"), "{shown:?}");
    assert!(!shown.out.contains('@'), "neither user nor password: {shown:?}");

    assert_eq!(run(&home, &["migrate"]).await.code, Some(2), "there is none yet");
    home.start().await.sigterm().await;
    let newest = said(&home, &["migrate"]).await;
    assert_eq!(newest["from"], newest["to"], "{newest}");
    let server = home.start().await;
    assert_eq!(run(&home, &["migrate"]).await.code, Some(1), "a server has it open");
    server.sigterm().await;
}
