//! Submitting to the real server: what most tests begin with, and what an idempotency key promises.

use std::collections::HashSet;

use longhaul_client::wire::{Job, SubmitRequest};
use longhaul_client::{Client, ClientError, SubmitOptions, Update};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::Installation;
use crate::harness::raw_http;

/// Submits a job and returns it as it was accepted.
pub(crate) async fn submit(client: &Client, kind: &str, input: Value) -> Job {
    let request = SubmitRequest::new(kind, &input).unwrap();
    client.submit(&request, &SubmitOptions::default()).await.unwrap()
}

/// The job once it is so, learned by watching it.
pub(crate) async fn until(client: &Client, id: &str, so: impl Fn(&Job) -> bool) -> Job {
    let mut events = client.events(id);
    while let Some(update) = events.next().await.unwrap() {
        if let Update::Job(job) = update
            && so(&job)
        {
            return *job;
        }
    }
    panic!("job {id} ended otherwise: {:?}", client.job(id, None).await)
}

/// The job at its end.
pub(crate) async fn end(client: &Client, id: &str) -> Job {
    until(client, id, |job| job.status.is_terminal()).await
}

#[tokio::test]
async fn hundred_concurrent_submissions_of_one_key_make_one_job() {
    let install = Installation::new();
    let _server = install.start().await;
    let body = json!({"kind": "demo", "input": {"result": "once"}}).to_string();
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let (address, body) = (install.address(), body.clone());
        calls.spawn(async move {
            let key = [("idempotency-key", "one-key")];
            raw_http::send(address, "POST /v1/jobs", &key, &body).await.unwrap()
        });
    }
    let responses = calls.join_all().await;
    for response in &responses {
        // 200 once the job has finished, which may be before the last response.
        assert!([200, 202].contains(&response.status), "{response:?}");
    }
    let ids: HashSet<String> =
        responses.iter().map(|response| response.json()["jobId"].to_string()).collect();
    assert_eq!(ids.len(), 1);
    let list = install.client().list(&longhaul_client::ListRequest::default()).await.unwrap();
    assert_eq!(list.jobs.len(), 1);

    let other = body.replace("once", "twice");
    let key = [("idempotency-key", "one-key")];
    let response = raw_http::send(install.address(), "POST /v1/jobs", &key, &other).await.unwrap();
    assert_eq!(response.problem(), (422, "idempotency-key-reused".to_owned()));
}

#[tokio::test]
async fn idempotency_key_conflict_survives_a_restart() {
    let install = Installation::new();
    let server = install.start().await;
    let once = SubmitOptions { idempotency_key: Some("k".to_owned()), wait: None };
    let request = SubmitRequest::new("demo", &json!({"result": 1})).unwrap();
    let job = install.client().submit(&request, &once).await.unwrap();
    server.kill9().await;

    let _server = install.start().await;
    let other = SubmitRequest::new("demo", &json!({"result": 2})).unwrap();
    let refused = install.client().submit(&other, &once).await.unwrap_err();
    assert!(
        matches!(&refused, ClientError::Refused(problem) if problem.code == "idempotency-key-reused"),
        "{refused}"
    );
    assert_eq!(install.client().submit(&request, &once).await.unwrap().job_id, job.job_id);
}
