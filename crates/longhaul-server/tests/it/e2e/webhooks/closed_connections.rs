//! `FakeHttpServers` that take a delivery and are gone.

use longhaul_client::wire::Status;

use super::{WebhookInstallation, submit_with_webhook};
use crate::e2e::submit::end;
use crate::harness::Installation;
use crate::harness::{FakeHttpServer, ReceivedRequest, Reply};

async fn has_arrived(install: &Installation, job: &str) -> bool {
    let page = install.client().job_deliveries(job, None).await.unwrap();
    page.deliveries.iter().all(|delivery| delivery.status == Status::Completed)
}

/// Submits a job and waits until all that is owed for it has arrived.
async fn tell(install: &Installation, receiver: &FakeHttpServer) {
    let job = submit_with_webhook(install, receiver.url(), "1ms").await.job_id;
    end(&install.client(), &job).await;
    // The response is recorded shortly after it arrives, so this polls.
    while !has_arrived(install, &job).await {}
}

async fn is_sent_once(place: WebhookInstallation, reply: Reply) {
    let WebhookInstallation { install, .. } = &place;
    let receiver = FakeHttpServer::start(move |_, _| reply.clone()).await;
    let server = install.start().await;
    tell(install, &receiver).await;
    server.kill9().await;
    // The next server would send again what it thinks has not arrived, before anything new.
    let _server = install.start_after_kill().await;
    tell(install, &receiver).await;
    let all = receiver.all();
    let mut ids: Vec<&str> = all.iter().map(|got| got.header("webhook-id")).collect();
    ids.sort_unstable();
    ids.dedup();
    let events: Vec<String> = all.iter().map(ReceivedRequest::event).collect();
    assert_eq!((ids.len(), events.len()), (6, 6), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_to_an_endpoint_that_closes_after_200_is_sent_once() {
    is_sent_once(WebhookInstallation::sqlite(), Reply::Leave).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_to_an_endpoint_that_closes_after_200_is_sent_once_on_postgres() {
    is_sent_once(WebhookInstallation::postgres().await, Reply::Leave).await;
}

/// The status is what counts, and it was there.
#[tokio::test(flavor = "multi_thread")]
async fn delivery_to_an_endpoint_that_dies_in_its_200_body_is_sent_once() {
    is_sent_once(WebhookInstallation::sqlite(), Reply::Break).await;
}
