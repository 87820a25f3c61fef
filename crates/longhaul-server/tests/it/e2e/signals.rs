//! Signals, the one that a job sends to its own worker included.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use longhaul_client::SubmitOptions;
use longhaul_client::wire::{Status, SubmitRequest};
use rustix::process::Signal;
use serde_json::json;

use super::submit::{end, submit, until};
use super::watch::{Watch, legal_history, saw_all};
use crate::harness::Installation;

/// A step that no test waits for.
const FOREVER: &str = "10m";

#[tokio::test]
async fn sigterm_releases_a_job_between_its_steps_without_charging_an_attempt() {
    let install = Installation::new();
    let server = install.start().await;
    let job = submit(&install.client(), "demo", json!({"steps": 40, "sleep": "20ms"})).await;
    until(&install.client(), &job.job_id, |job| job.progress.is_some()).await;
    let exited = server.sigterm().await;
    assert_eq!(exited.status.code(), Some(0), "{exited:?}");

    let _server = install.start().await;
    let ended = end(&install.client(), &job.job_id).await;
    assert_eq!((ended.status, ended.attempt), (Status::Completed, 1), "{ended:?}");
    legal_history(&install, &job.job_id).await;
    let attempts = install.client().attempts(&job.job_id).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|one| (one.attempt, one.status)).collect();
    assert_eq!(told, [(1, Some(Status::Pending)), (1, Some(Status::Completed))]);
    assert!(attempts.iter().all(|attempt| attempt.error.is_none()), "{attempts:?}");
    assert_eq!(install.client().steps(&job.job_id).await.unwrap().len(), 40);
}

#[tokio::test]
async fn sigterm_gives_back_a_step_that_outlasts_the_grace_without_charging_an_attempt() {
    let install = Installation::with("[worker]\nstop_grace = \"100ms\"\n");
    let server = install.start().await;
    let job = submit(&install.client(), "demo", json!({"sleep": FOREVER})).await;
    until(&install.client(), &job.job_id, |job| job.status == Status::Running).await;
    let exited = server.sigterm().await;
    assert_eq!(exited.status.code(), Some(0), "{exited:?}");

    let _server = install.start().await;
    let again = until(&install.client(), &job.job_id, |job| job.status == Status::Running).await;
    assert_eq!((again.attempt, again.error), (1, None));
    install.client().cancel(&job.job_id).await.unwrap();
    assert_eq!(end(&install.client(), &job.job_id).await.status, Status::Cancelled);
    legal_history(&install, &job.job_id).await;
}

#[tokio::test]
async fn sigterm_answers_waiting_requests_before_the_exit() {
    let install = Installation::with("[worker]\nstop_grace = \"100ms\"\n");
    let server = install.start().await;
    let job = submit(&install.client(), "demo", json!({"sleep": FOREVER})).await;
    let running = until(&install.client(), &job.job_id, |job| job.status == Status::Running).await;
    let (client, id) = (install.client(), job.job_id.clone());
    let mut watch = Watch::new(&install, &id, None);
    assert!(watch.next().await.is_some());
    let held = tokio::spawn(async move { client.job(&id, Some(Duration::from_mins(1))).await });
    let exited = server.sigterm().await;
    assert_eq!(exited.status.code(), Some(0), "{exited:?}");
    // Held, so answered with what it was; or too late to be taken at all.
    match held.await.unwrap() {
        Ok(job) => assert!(job.version >= running.version),
        Err(error) => assert!(error.is_transient(), "{error}"),
    }
}

#[tokio::test]
async fn second_sigterm_exits_at_once() {
    // Waits until the job runs, because a job that is only claimed is returned without charging an attempt.
    let program = "echo ::phase working >&2; while kill -0 $PPID; do sleep 0.1; done";
    let install = Installation::with(&format!(
        "[worker]\nstop_grace = \"10m\"\n[kinds.work]\ncommand = [\"sh\", \"-c\", \"{program}\"]\n"
    ));
    let mut server = install.start().await;
    let job = submit(&install.client(), "work", json!({})).await;
    until(&install.client(), &job.job_id, |job| job.phase.as_deref() == Some("working")).await;
    server.signal(Signal::TERM);
    server.wait_for_log("stopping").await;
    let exited = server.sigterm().await;
    assert_eq!(exited.status.code(), Some(130), "{exited:?}");

    // The interrupted attempt is charged, as after a kill, and the job continues.
    let _server = install.start_after_kill().await;
    until(&install.client(), &job.job_id, |job| job.attempt == 2).await;
}

#[tokio::test]
async fn server_paused_past_its_leases_finishes_its_jobs_once() {
    let lease = "[lease]\nduration = \"900ms\"\nrenew = \"200ms\"\nsweep = \"100ms\"\n";
    let install = Installation::with(lease);
    let server = install.start().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        let mut request =
            SubmitRequest::new("demo", &json!({"steps": 20, "sleep": "50ms"})).unwrap();
        request.max_attempts = Some(5);
        let job = install.client().submit(&request, &SubmitOptions::default()).await.unwrap();
        ids.push(job.job_id);
    }
    let mut watches: Vec<_> = ids.iter().map(|id| Watch::new(&install, id, Some(0))).collect();
    let mut seen: Vec<Vec<_>> = Vec::new();
    for watch in &mut watches {
        let mut events = Vec::new();
        while events
            .last()
            .is_none_or(|job: &longhaul_client::wire::Job| job.status == Status::Pending)
        {
            events.push(watch.next().await.unwrap());
        }
        seen.push(events);
    }
    server.signal(Signal::STOP);
    // tidy: allow(sleep) the fault is that time passes while the server is stopped
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.signal(Signal::CONT);
    let judge = async {
        for ((id, watch), mut seen) in ids.iter().zip(watches).zip(seen) {
            seen.extend(watch.rest().await);
            let history = legal_history(&install, id).await;
            saw_all(&seen, &history);
            assert_eq!(seen.last().unwrap().status, Status::Completed);
            let steps = install.client().steps(id).await.unwrap();
            assert_eq!(steps.len(), 20);
            assert!(steps.is_sorted_by_key(|step| step.attempt), "{steps:?}");
        }
    };
    tokio::select! {
        () = judge => {}
        exited = server.wait() => panic!("it did not live through the pause: {exited:?}"),
    }
}

#[tokio::test]
async fn job_that_kills_its_worker_fails_after_its_attempts() {
    let install = Installation::with(
        "[kinds.bomb]\ncommand = [\"sh\", \"-c\", \"kill -9 $PPID\"]\nmax_attempts = 3\n",
    );
    let mut server = install.start().await;
    let once = SubmitOptions { idempotency_key: Some("bomb".to_owned()), wait: None };
    let request = SubmitRequest::new("bomb", &json!({})).unwrap();
    // The response may be lost with the server; the idempotency key finds the job again.
    drop(install.client().submit(&request, &once).await);
    let mut deaths = 0;
    let job = loop {
        let exited = server.wait().await;
        assert_eq!(exited.status.signal(), Some(9), "{exited:?}");
        deaths += 1;
        assert!(deaths <= 3, "a job of three attempts killed its worker four times");
        // It may kill the next one before that is ready.
        server = match install.try_start().await {
            Ok(server) => server,
            Err(exited) => {
                assert_eq!(exited.status.signal(), Some(9), "{exited:?}");
                deaths += 1;
                install.start().await
            }
        };
        if deaths == 3 {
            break install.client().submit(&request, &once).await.unwrap();
        }
    };
    let ended = end(&install.client(), &job.job_id).await;
    assert_eq!((ended.status, ended.attempt), (Status::Failed, 3));
    let error = ended.error.unwrap();
    assert_eq!((error.code.as_str(), error.attempt), ("worker-lost", 3), "{error:?}");
    legal_history(&install, &job.job_id).await;
    let other = submit(&install.client(), "demo", json!({"result": "alive"})).await;
    assert_eq!(end(&install.client(), &other.job_id).await.status, Status::Completed);
}
