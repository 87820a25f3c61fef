//! Stopping programs and their child processes.

use std::fs;
use std::time::Duration;

use crate::support::{TestPrograms, result, start, with_immediate_retries};
use longhaul::{Clock, Engine, Kind, Status, Timestamp};
use serde_json::json;

/// Program and child hold the pipe for a day.
const SLEEPS: &str = r#"exec 3>"$DIR/life"; echo begun >&3; sleep 86400 & sleep 86400"#;
/// Handles SIGTERM with a message to stderr and to its probe.
const POLITE: &str = r#"trap 'echo stopping >&2; echo bye >&3; exit 0' TERM
exec 3>"$DIR/life"; echo begun >&3; sleep 86400 & wait"#;
/// Ignores SIGTERM, as does its child.
const STUBBORN: &str = r#"trap '' TERM
exec 3>"$DIR/life"; echo begun >&3; sleep 86400 & wait; wait"#;

/// Shorter than a lease, because a manual clock renews none.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn start_at(clock: &Clock, kind: Kind) -> Engine {
    Engine::builder().memory().clock(clock.clone()).register(kind).start().await.unwrap()
}

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let programs = TestPrograms::new();
    let mut probe = programs.probe();
    let clock = Clock::manual(Timestamp::from_millis(0));
    let engine =
        start_at(&clock, programs.single(STUBBORN).build().unwrap().timeout(TIMEOUT)).await;
    let job = engine.submit_raw("work", &json!({})).max_attempts(1).await.unwrap();
    probe.started().await;
    clock.advance(TIMEOUT);
    assert_eq!(job.wait().await.unwrap().job.error.unwrap().code, "timeout");
    probe.ended().await;
}

#[tokio::test]
async fn timeout_deletes_the_working_folder() {
    let programs = TestPrograms::new();
    let mut probe = programs.probe();
    let clock = Clock::manual(Timestamp::from_millis(0));
    let text = format!("touch here; {SLEEPS}");
    let engine = start_at(&clock, programs.single(&text).build().unwrap().timeout(TIMEOUT)).await;
    let job = engine.submit_raw("work", &json!({})).max_attempts(1).await.unwrap();
    probe.started().await;
    clock.advance(TIMEOUT);
    job.wait().await.unwrap();
    // A dropped attempt deletes its folder in the background.
    while fs::read_dir(programs.work_root()).unwrap().count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn timed_out_step_gets_sigterm() {
    let programs = TestPrograms::new();
    let mut probe = programs.probe();
    let clock = Clock::manual(Timestamp::from_millis(0));
    let steps = vec![programs.step("slow", POLITE).timeout(TIMEOUT)];
    let kind = programs.pipeline(steps).stop_grace(Duration::MAX).build().unwrap();
    let engine = start_at(&clock, kind).await;
    let job = engine.submit_raw("work", &json!({})).max_attempts(1).await.unwrap();
    probe.started().await;
    clock.advance(TIMEOUT);
    let error = job.wait().await.unwrap().job.error.unwrap();
    assert_eq!((error.code.as_str(), error.retryable), ("timeout", true));
    assert_eq!(probe.ended().await, "bye\n");
}

#[tokio::test]
async fn cancelled_program_gets_sigterm() {
    let programs = TestPrograms::new();
    let mut probe = programs.probe();
    let engine = start(programs.single(POLITE).build().unwrap()).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    probe.started().await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Cancelled);
    assert_eq!(probe.ended().await, "bye\n");
}

#[tokio::test]
async fn cancelled_step_gets_sigterm() {
    let programs = TestPrograms::new();
    let mut probe = programs.probe();
    let engine =
        start(programs.pipeline(vec![programs.step("only", POLITE)]).build().unwrap()).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    probe.started().await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Cancelled);
    assert_eq!(probe.ended().await, "bye\n");
}

#[tokio::test]
async fn program_that_ignores_sigterm_is_killed_after_its_grace() {
    let programs = TestPrograms::new();
    let mut probe = programs.probe();
    let kind = programs.single(STUBBORN).stop_grace(Duration::from_millis(1)).build().unwrap();
    let engine = start(kind).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    probe.started().await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Cancelled);
    probe.ended().await;
}

#[tokio::test]
async fn released_attempt_leaves_no_process() {
    let programs = TestPrograms::new();
    let mut probe = programs.probe();
    let kind = with_immediate_retries(programs.single(SLEEPS).build().unwrap());
    let engine = Engine::builder().memory().register(kind).stop_grace(Duration::ZERO);
    let engine = engine.start().await.unwrap();
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    probe.started().await;
    engine.stop().await;
    probe.ended().await;
    assert_eq!(job.record().await.unwrap().job.status, Status::Pending);
}

#[tokio::test]
async fn processes_left_by_a_program_are_killed() {
    let programs = TestPrograms::new();
    let probe = programs.probe();
    // The remaining process also keeps stdout and stderr open.
    let text = r#"exec 3>"$DIR/life"; echo begun >&3; sleep 86400 & echo 7"#;
    assert_eq!(result(&programs.run(programs.single(text), json!({})).await), json!(7));
    probe.ended().await;
}
