//! Receivers that take a delivery and are gone.

use longhaul_client::wire::Status;

use super::super::home::Home;
use super::super::submit::end;
use super::{Place, submit_telling};
use crate::webhooks::receiver::{Got, Receiver, Reply};

async fn has_arrived(home: &Home, job: &str) -> bool {
    let page = home.client().job_deliveries(job, None).await.unwrap();
    page.deliveries.iter().all(|delivery| delivery.status == Status::Completed)
}

/// Submits a job and waits until all that is owed for it has arrived.
async fn tell(home: &Home, receiver: &Receiver) {
    let job = submit_telling(home, receiver.url(), "1ms").await.job_id;
    end(&home.client(), &job).await;
    // What the receiver said is stored soon after it was said: each look is a call.
    while !has_arrived(home, &job).await {}
}

async fn is_sent_once(place: Place, reply: Reply) {
    let Place { home, .. } = &place;
    let receiver = Receiver::start(move |_, _| reply.clone()).await;
    let server = home.start().await;
    tell(home, &receiver).await;
    server.kill9().await;
    // The next server would send again what it thinks has not arrived, before anything new.
    let _server = home.start_after_kill().await;
    tell(home, &receiver).await;
    let all = receiver.all();
    let mut ids: Vec<&str> = all.iter().map(|got| got.header("webhook-id")).collect();
    ids.sort_unstable();
    ids.dedup();
    let events: Vec<String> = all.iter().map(Got::event).collect();
    assert_eq!((ids.len(), events.len()), (6, 6), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_whose_receiver_left_after_its_200_is_sent_once() {
    is_sent_once(Place::sqlite(), Reply::Leave).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_whose_receiver_left_after_its_200_is_sent_once_on_postgres() {
    is_sent_once(Place::postgres().await, Reply::Leave).await;
}

/// The status is what counts, and it was there.
#[tokio::test(flavor = "multi_thread")]
async fn delivery_whose_receiver_died_in_the_body_of_its_200_is_sent_once() {
    is_sent_once(Place::sqlite(), Reply::Break).await;
}
