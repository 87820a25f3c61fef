//! `kill -9` while receivers hold deliveries: each arrives again under its id, and none is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{WebhookInstallation, submit_with_webhook};
use crate::e2e::submit::end;
use crate::e2e::watch::legal_history;
use crate::harness::Installation;
use crate::harness::{FakeHttpServer, OK, ReceivedRequest, Reply};

/// The moment of the kill.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// The receiver delays a delivery of this event.
    event: &'static str,
    /// It is the one of this number.
    number: usize,
    /// The job has finished by then.
    ended: bool,
}

fn version(got: &ReceivedRequest) -> u64 {
    got.json()["data"]["version"].as_u64().unwrap()
}

fn is_of(got: &ReceivedRequest, job: &str) -> bool {
    got.json()["data"]["jobId"] == job
}

/// Waits for the delivery of the job's end, and asserts that every transition was delivered, at first in
/// their order, and each under one id with one body.
async fn judge(install: &Installation, receiver: &FakeHttpServer, job: &str) {
    let job = end(&install.client(), job).await.job_id;
    let history = legal_history(install, &job).await;
    let owed: Vec<u64> = history.iter().map(|job| job.version).collect();
    let all_came = |all: &[ReceivedRequest]| {
        let versions: Vec<u64> = all.iter().filter(|got| is_of(got, &job)).map(version).collect();
        owed.iter().all(|owed| versions.contains(owed))
    };
    let all = receiver.until(all_came).await;
    let mut bodies: HashMap<String, Vec<u8>> = HashMap::new();
    let mut first = Vec::new();
    for got in all.iter().filter(|got| is_of(got, &job)) {
        let id = got.header("webhook-id").to_owned();
        let known = bodies.entry(id).or_insert_with(|| {
            first.push(version(got));
            got.body.clone()
        });
        assert_eq!(*known, got.body, "one id, one body");
    }
    assert_eq!(first, owed, "{job}: told of every transition, at first in order");
}

async fn held_delivery_comes_again_after_a_kill(place: WebhookInstallation, moment: Moment) {
    let WebhookInstallation { install, .. } = &place;
    let came = AtomicBool::new(false);
    let receiver = FakeHttpServer::start(move |_, got| {
        let is_first = got.event() == moment.event && !came.swap(true, Ordering::SeqCst);
        if is_first { Reply::Hang } else { OK }
    })
    .await;
    let server = install.start().await;
    let job = submit_with_webhook(install, receiver.url(), "50ms").await.job_id;
    let held = receiver.first(moment.number).await.remove(moment.number - 1);
    assert_eq!(held.event(), moment.event);
    if moment.ended {
        end(&install.client(), &job).await;
    }
    server.kill9().await;

    let _server = install.start_after_kill().await;
    judge(install, &receiver, &job).await;
    let id = held.header("webhook-id");
    let is_again = |got: &&ReceivedRequest| got.header("webhook-id") == id;
    let all = receiver.until(|all| all.iter().filter(is_again).count() >= 2).await;
    assert!(all.iter().filter(is_again).all(|again| again.body == held.body));
}

/// In each round, the receiver accepts some deliveries and delays all later ones until the server is killed.
async fn random_kills_lose_no_event_and_keep_the_order(place: WebhookInstallation) {
    const ROUNDS: usize = 4;
    const JOBS: usize = 8;
    let seed = std::env::var("LONGHAUL_E2E_SEED")
        .map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    eprintln!("LONGHAUL_E2E_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let WebhookInstallation { install, .. } = &place;
    let answered = Arc::new(AtomicUsize::new(0));
    let limit = Arc::clone(&answered);
    let receiver =
        FakeHttpServer::start(
            move |number, _| {
                if number < limit.load(Ordering::SeqCst) { OK } else { Reply::Hang }
            },
        )
        .await;
    let mut jobs = Vec::new();
    let mut server = install.start().await;
    for _ in 0..ROUNDS {
        let until = receiver.all().len() + random.random_range(0..2 * JOBS);
        answered.store(until, Ordering::SeqCst);
        for _ in 0..JOBS {
            jobs.push(submit_with_webhook(install, receiver.url(), "2ms").await.job_id);
        }
        receiver.until(|all| all.len() > until).await;
        server.kill9().await;
        server = install.start_after_kill().await;
    }
    // Delayed deliveries end with this server.
    server.kill9().await;
    answered.store(usize::MAX, Ordering::SeqCst);
    let _server = install.start_after_kill().await;
    for job in &jobs {
        judge(install, &receiver, job).await;
    }
}

const FIRST: Moment = Moment { event: "job.pending", number: 1, ended: false };
const ALL_OWED: Moment = Moment { event: "job.pending", number: 1, ended: true };
const RUNNING: Moment = Moment { event: "job.running", number: 2, ended: false };
const LAST: Moment = Moment { event: "job.completed", number: 3, ended: true };

macro_rules! on_both_stores {
    ($($name:ident: $case:ident($($moment:expr)?),)*) => {
        mod in_sqlite {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                $case(WebhookInstallation::sqlite() $(, $moment)?).await;
            })*
        }

        mod in_postgres {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                $case(WebhookInstallation::postgres().await $(, $moment)?).await;
            })*
        }
    };
}

on_both_stores! {
    first_delivery_held: held_delivery_comes_again_after_a_kill(FIRST),
    first_delivery_held_until_all_are_owed: held_delivery_comes_again_after_a_kill(ALL_OWED),
    delivery_held_while_the_job_runs: held_delivery_comes_again_after_a_kill(RUNNING),
    last_delivery_held: held_delivery_comes_again_after_a_kill(LAST),
    killed_at_random: random_kills_lose_no_event_and_keep_the_order(),
}
