//! Endpoints that one replica makes and others tell.

use longhaul_client::Client;
use longhaul_client::SubmitOptions;
use longhaul_client::wire::{EndpointRequest, SubmitRequest};
use serde_json::json;

use super::super::database::Database;
use super::super::home::{Home, LONGHAUL, Server};
use super::super::submit::end;
use super::LOOPBACK;
use crate::webhooks::receiver::{Got, Receiver};

/// A process of this role, and where it answers.
async fn replica(home: &Home, database: &Database, role: &str, name: &str) -> (Server, String) {
    let mut command = home.command(LONGHAUL);
    command.args(["serve", "--listen", "127.0.0.1:0", "--role", role, "--replica", name]);
    command.env("LONGHAUL_DATABASE", database.url());
    let mut server = Server::spawn(command);
    let line = server.line().await.expect("a replica should get ready");
    let url = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    (server, format!("http://{}", url.unwrap_or_default()))
}

async fn submit(client: &Client) -> String {
    let request = SubmitRequest::new("demo", &json!({"steps": 1, "sleep": "1ms"})).unwrap();
    client.submit(&request, &SubmitOptions::default()).await.unwrap().job_id
}

/// A job that is submitted elsewhere right after the answer is told already, and one that is submitted right
/// after the endpoint was deleted is not.
#[tokio::test(flavor = "multi_thread")]
async fn endpoint_made_at_one_replica_is_told_of_jobs_at_the_other() {
    let database = Database::create().await;
    let home = Home::with(LOOPBACK);
    let (_one, one) = replica(&home, &database, "api", "one").await;
    let (_two, two) = replica(&home, &database, "api", "two").await;
    let (_worker, _) = replica(&home, &database, "worker", "three").await;
    let (one, two) = (Client::new(&one, None).unwrap(), Client::new(&two, None).unwrap());
    for (makes, submits) in [(&one, &two), (&two, &one), (&one, &two)] {
        let receiver = Receiver::good().await;
        let request =
            EndpointRequest { url: receiver.url(), description: None, events: None, payload: None };
        let made = makes.create_endpoint(&request).await.unwrap();
        let job = submit(submits).await;
        let events: Vec<String> = receiver.first(3).await.iter().map(Got::event).collect();
        assert_eq!(events, ["job.pending", "job.running", "job.completed"]);
        let told = receiver.all();
        assert!(told.iter().all(|got| got.json()["data"]["jobId"] == job.as_str()), "{told:?}");
        makes.delete_endpoint(&made.kept.id).await.unwrap();
        // Ended before there is another endpoint.
        let untold = end(submits, &submit(submits).await).await.job_id;
        let owed = submits.job_deliveries(&untold, None).await.unwrap();
        assert_eq!(owed.deliveries.len(), 0, "{owed:?}");
    }
}
