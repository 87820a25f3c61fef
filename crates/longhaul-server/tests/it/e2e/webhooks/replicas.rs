//! Endpoints that one replica makes and others tell.

use longhaul_client::Client;
use longhaul_client::SubmitOptions;
use longhaul_client::wire::{EndpointRequest, SubmitRequest};
use serde_json::json;

use super::LOOPBACK;
use crate::e2e::submit::end;
use crate::harness::TestDatabase;
use crate::harness::{FakeHttpServer, ReceivedRequest};
use crate::harness::{Installation, LONGHAUL, TestProcess};

/// Starts a replica of this role and returns its address.
async fn replica(
    install: &Installation,
    database: &TestDatabase,
    role: &str,
    name: &str,
) -> (TestProcess, String) {
    let mut command = install.command(LONGHAUL);
    command.args(["serve", "--listen", "127.0.0.1:0", "--role", role, "--replica", name]);
    command.env("LONGHAUL_DATABASE", database.url());
    let mut server = TestProcess::spawn(command);
    let line = server.line().await.expect("a replica should get ready");
    let url = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    (server, format!("http://{}", url.unwrap_or_default()))
}

async fn submit(client: &Client) -> String {
    let request = SubmitRequest::new("demo", &json!({"steps": 1, "sleep": "1ms"})).unwrap();
    client.submit(&request, &SubmitOptions::default()).await.unwrap().job_id
}

/// A job that another replica accepts right after the response has deliveries already, and one submitted right
/// after the endpoint was deleted is not.
#[tokio::test(flavor = "multi_thread")]
async fn endpoint_created_at_one_replica_gets_events_of_the_other() {
    let database = TestDatabase::create().await;
    let install = Installation::with(LOOPBACK);
    let (_one, one) = replica(&install, &database, "api", "one").await;
    let (_two, two) = replica(&install, &database, "api", "two").await;
    let (_worker, _) = replica(&install, &database, "worker", "three").await;
    let (one, two) = (Client::new(&one, None).unwrap(), Client::new(&two, None).unwrap());
    for (makes, submits) in [(&one, &two), (&two, &one), (&one, &two)] {
        let receiver = FakeHttpServer::good().await;
        let request =
            EndpointRequest { url: receiver.url(), description: None, events: None, payload: None };
        let made = makes.create_endpoint(&request).await.unwrap();
        let job = submit(submits).await;
        let events: Vec<String> =
            receiver.first(3).await.iter().map(ReceivedRequest::event).collect();
        assert_eq!(events, ["job.pending", "job.running", "job.completed"]);
        let told = receiver.all();
        assert!(told.iter().all(|got| got.json()["data"]["jobId"] == job.as_str()), "{told:?}");
        makes.delete_endpoint(&made.endpoint.id).await.unwrap();
        // Ended before there is another endpoint.
        let untold = end(submits, &submit(submits).await).await.job_id;
        let owed = submits.job_deliveries(&untold, None).await.unwrap();
        assert_eq!(owed.deliveries.len(), 0, "{owed:?}");
    }
}
