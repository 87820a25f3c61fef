//! Moving up from one file to Postgres, and `migrate`, with the real binary.

use longhaul_client::wire::{
    EndpointRequest, KeyRequest, LimitsPatch, Scope, Status, SubmitRequest, TenantPatch,
    TenantRequest,
};
use longhaul_client::{Client, ClientError, ListRequest, SubmitOptions};
use serde_json::{Value, json};

use super::{run, run_json};
use crate::e2e::submit::end;
use crate::harness::{
    FakeHttpServer, Installation, LONGHAUL, ReceivedRequest, TestDatabase, TestProcess,
};

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
    let waiting =
        run_json(&install, &["submit", "demo", r#"{"steps": 2, "result": "later"}"#]).await;
    let waiting = waiting["jobId"].as_str().unwrap().to_owned();
    let from = format!("sqlite:{}", install.database().display());
    let copy = ["copy", "--from", &from, "--to", &database.url()].map(str::to_owned);
    let copy: Vec<&str> = copy.iter().map(String::as_str).collect();

    let held = run(&install, &copy).await;
    assert_eq!(held.code, Some(1), "{held:?}");
    assert!(held.err.contains("another process has the database open"), "{held:?}");
    server.sigterm().await;

    let copied = run_json(&install, &copy).await;
    assert_eq!(json!([copied["jobs"], copied["known"]]), json!([2, 0]), "{copied}");
    assert_eq!(rows_of(&copied, "paused_queues"), 1, "{copied}");
    assert_eq!(copied["tenants"][0]["steps"], 1, "{copied}");
    let again = run_json(&install, &copy).await;
    assert_eq!(
        json!([again["jobs"], again["known"], again["tenants"], again["tables"]]),
        json!([0, 2, copied["tenants"], copied["tables"]])
    );
    let shown = run(&install, &copy).await;
    for line in [
        "copied: 0 jobs (2 already copied)\n",
        "verified: tenant default, 2 jobs, 1 steps, sha256 ",
        "verified: table paused_queues, 1 rows, sha256 ",
        "left out: table leases (running jobs return to their queues)\n",
    ] {
        assert!(shown.out.contains(line), "{line:?} is missing: {shown:?}");
    }

    let server = start_on(&install, &database.url()).await;
    let known = run_json(&install, &["submit", "demo", r#"{"result": 42}"#, "--key", "k"]).await;
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
    assert!(refused.err.contains("audit: 1 only in the target"), "{refused:?}");
    assert!(refused.err.contains("copy to an empty database"), "{refused:?}");
}

/// Starts a server. Returns its address, and the admin key if it has created one.
async fn start_with_keys(
    install: &Installation,
    database: Option<&str>,
) -> (TestProcess, String, Option<String>) {
    let mut serve = install.command(LONGHAUL);
    serve.args(["serve", "--json", "--listen", "127.0.0.1:0"]);
    serve.args(database.map(|database| ["--database", database]).into_iter().flatten());
    let mut server = TestProcess::spawn(serve);
    let line = server.line().await.expect("a server should get ready");
    let ready: Value = serde_json::from_str(&line).unwrap();
    let url = ready["url"].as_str().unwrap().to_owned();
    (server, url, ready["adminKey"].as_str().map(str::to_owned))
}

fn client(url: &str, key: &str) -> Client {
    Client::new(url, Some(key.to_owned())).unwrap()
}

fn rows_of(copied: &Value, table: &str) -> u64 {
    let mut tables = copied["tables"].as_array().unwrap().iter();
    tables.find(|digest| digest["table"] == table).unwrap()["rows"].as_u64().unwrap()
}

async fn submit(client: &Client) -> String {
    let request = SubmitRequest::new("demo", &json!({"result": 1})).unwrap();
    client.submit(&request, &SubmitOptions::default()).await.unwrap().job_id
}

fn is_end_of(job: &str) -> impl Fn(&[ReceivedRequest]) -> bool {
    move |all| {
        all.iter().any(|got| got.event() == "job.completed" && got.json()["data"]["jobId"] == job)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_migrate_from_sqlite_to_postgres() {
    let database = TestDatabase::create().await;
    let install =
        Installation::with("[auth]\nrequire_keys = true\n[egress]\nallow = [\"127.0.0.1/32\"]\n");
    let receiver = FakeHttpServer::good().await;
    let (server, url, admin_key) = start_with_keys(&install, None).await;
    let admin_key = admin_key.unwrap();
    let admin = client(&url, &admin_key);
    let wanted = TenantRequest { id: "acme".to_owned(), name: Some("Acme Corp".to_owned()) };
    admin.create_tenant(&wanted).await.unwrap();
    let limits = LimitsPatch { pending_max: Some(Some(7)), ..LimitsPatch::default() };
    let patch = TenantPatch { limits, ..TenantPatch::default() };
    admin.change_tenant("acme", &patch).await.unwrap();
    let key = KeyRequest {
        tenant: Some("acme".to_owned()),
        name: "ci".to_owned(),
        scopes: vec![Scope::Admin],
        expires_at: None,
        requests_per_second: None,
    };
    let (valid, revoked) =
        (admin.create_key(&key).await.unwrap(), admin.create_key(&key).await.unwrap());
    admin.revoke_key(&revoked.metadata.id).await.unwrap();
    let acme = client(&url, &valid.key);
    let endpoint = EndpointRequest {
        url: receiver.url(),
        description: Some("billing".to_owned()),
        events: None,
        payload: None,
    };
    let endpoint = acme.create_endpoint(&endpoint).await.unwrap().endpoint;
    let finished = submit(&acme).await;
    end(&acme, &finished).await;
    receiver.until(is_end_of(&finished)).await;
    acme.pause_queue("default").await.unwrap();
    let waiting = submit(&acme).await;
    let audit = admin.audit(None, None, None).await.unwrap();
    let tenants = admin.tenants(None).await.unwrap();
    assert!(audit.next_cursor.is_none() && audit.entries.len() > 5, "{audit:?}");
    server.sigterm().await;

    let from = format!("sqlite:{}", install.database().display());
    let copy = ["copy", "--from", &from, "--to", &database.url()].map(str::to_owned);
    let copy: Vec<&str> = copy.iter().map(String::as_str).collect();
    let copied = run_json(&install, &copy).await;
    let rows = ["tenants", "api_keys", "endpoints"].map(|table| rows_of(&copied, table));
    assert_eq!(rows, [2, 3, 1], "{copied}");
    assert_eq!(rows_of(&copied, "audit"), audit.entries.len() as u64, "{copied}");
    let needed = &copied["serverKeys"]["needed"];
    let uses = ["apiKeys", "endpoints", "found"].map(|field| needed[0][field].clone());
    assert_eq!(uses, [json!(2), json!(1), json!(true)], "{copied}");
    let elsewhere = run_json(&install, &[&copy[..], &["--data", "elsewhere"]].concat()).await;
    assert_eq!(elsewhere["serverKeys"]["needed"][0]["found"], false, "{elsewhere}");
    assert!(!install.path().join("elsewhere").exists(), "nothing is made");

    let (server, url, admin_key_of_target) = start_with_keys(&install, Some(&database.url())).await;
    assert_eq!(admin_key_of_target, None);
    let (admin, acme) = (client(&url, &admin_key), client(&url, &valid.key));
    assert_eq!(admin.audit(None, None, None).await.unwrap(), audit);
    assert_eq!(admin.tenants(None).await.unwrap(), tenants);
    assert_eq!(acme.endpoints(None).await.unwrap().endpoints, [endpoint]);
    let rejected = client(&url, &revoked.key).list(&ListRequest::default()).await.unwrap_err();
    let ClientError::Refused(problem) = &rejected else { panic!("{rejected:?}") };
    assert_eq!(problem.code, "unauthorized", "{rejected:?}");
    assert_eq!(acme.job(&waiting, None).await.unwrap().status, Status::Pending);
    acme.resume_queue("default").await.unwrap();
    receiver.until(is_end_of(&waiting)).await;
    server.sigterm().await;
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
    let first = run_json(&install, &migrate).await;
    assert_eq!(first["from"], 0, "{first}");
    assert!(first["to"].as_i64().unwrap() > 0, "{first}");
    let shown = run(&install, &migrate).await;
    assert!(shown.out.contains("is current"), "{shown:?}");
    assert!(!shown.out.contains('@'), "neither user nor password: {shown:?}");

    assert_eq!(run(&install, &["migrate"]).await.code, Some(2), "there is none yet");
    install.start().await.sigterm().await;
    let newest = run_json(&install, &["migrate"]).await;
    assert_eq!(newest["from"], newest["to"], "{newest}");
    let server = install.start().await;
    assert_eq!(run(&install, &["migrate"]).await.code, Some(1), "a server has it open");
    server.sigterm().await;
}
