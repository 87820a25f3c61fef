//! Keys on two replicas of one Postgres database.

use std::time::Duration;

use longhaul_client::wire::{KeyRequest, Scope, SubmitRequest};
use longhaul_client::{Client, ClientError, ListRequest, SubmitOptions};
use serde_json::{Value, json};

use crate::harness::Cluster;
use crate::harness::TestProcess;

/// Starts a replica and returns its address, and the admin key if it created one.
async fn start(cluster: &Cluster, name: &str) -> (TestProcess, String, Option<String>) {
    let mut command = cluster.install.command(crate::harness::LONGHAUL);
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--replica", name]);
    command.env("LONGHAUL_DATABASE", cluster.database());
    let mut server = TestProcess::spawn(command);
    let line = server.line().await.expect("a replica should get ready");
    let told: Value = serde_json::from_str(&line).unwrap();
    let key = told["adminKey"].as_str().map(str::to_owned);
    (server, told["url"].as_str().unwrap().to_owned(), key)
}

#[tokio::test]
async fn debug_log_contains_no_input_and_no_key() {
    let cluster = Cluster::new("[auth]\nrequire_keys = true\n[log]\nlevel = \"trace\"\n").await;
    let (server, url, admin) = start(&cluster, "one").await;
    let admin = admin.unwrap();
    let client = Client::new(&url, Some(admin.clone())).unwrap();
    let request = SubmitRequest::new("demo", &json!({"result": "canary-of-an-input"})).unwrap();
    let job = client.submit(&request, &SubmitOptions::default()).await.unwrap();
    while client.job(&job.job_id, Some(Duration::from_secs(5))).await.unwrap().result.is_none() {}
    let killed = server.kill9().await;
    assert!(killed.stderr.contains("DEBUG"), "the log is of no use here: {killed:?}");
    let secret = admin.split('_').nth(2).unwrap();
    for canary in ["canary-of-an-input", secret] {
        let found = killed.stderr.lines().find(|line| line.contains(canary));
        assert_eq!(found, None);
    }
}

fn is_refused(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem) if problem.code == "unauthorized")
}

#[tokio::test]
async fn key_revoked_on_one_replica_is_rejected_by_the_other() {
    let cluster = Cluster::new("[auth]\nrequire_keys = true\n").await;
    let ((_one, one_url, first), (_two, two_url, second)) =
        tokio::join!(start(&cluster, "one"), start(&cluster, "two"));
    assert!(first.is_some() != second.is_some(), "one of them makes the first key, and one only");
    let admin = Client::new(&one_url, first.or(second)).unwrap();
    let wish = KeyRequest {
        tenant: None,
        name: "ci".to_owned(),
        scopes: vec![Scope::Read],
        expires_at: None,
        requests_per_second: None,
    };
    let made = admin.create_key(&wish).await.unwrap();
    let there = Client::new(&two_url, Some(made.key.clone())).unwrap();
    there.list(&ListRequest::default()).await.unwrap();
    admin.revoke_key(&made.metadata.id).await.unwrap();
    let here = Client::new(&one_url, Some(made.key)).unwrap();
    let error = here.list(&ListRequest::default()).await.unwrap_err();
    assert!(is_refused(&error), "{error:?}");
    loop {
        match there.list(&ListRequest::default()).await {
            Ok(_) => {}
            Err(error) if is_refused(&error) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
}
