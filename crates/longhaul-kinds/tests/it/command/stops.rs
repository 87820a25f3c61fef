//! How programs are stopped, with all that they have started.

use std::fs;
use std::time::Duration;

use crate::workshop::{Workshop, at_once, result, start};
use longhaul::{Clock, Engine, Kind, Status, Timestamp};
use serde_json::json;

/// A program and a child of it hold the pipe and would go on for a day.
const STAYS: &str = r#"exec 3>"$SHOP/life"; echo begun >&3; sleep 86400 & sleep 86400"#;
/// Says goodbye, on stderr and to its witness.
const POLITE: &str = r#"trap 'echo stopping >&2; echo bye >&3; exit 0' TERM
exec 3>"$SHOP/life"; echo begun >&3; sleep 86400 & wait"#;
/// Does not listen, and neither does its child.
const STUBBORN: &str = r#"trap '' TERM
exec 3>"$SHOP/life"; echo begun >&3; sleep 86400 & wait; wait"#;

/// Shorter than a lease, which nobody renews while the clock stands.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn start_at(clock: &Clock, kind: Kind) -> Engine {
    Engine::builder().memory().clock(clock.clone()).register(kind).start().await.unwrap()
}

#[tokio::test]
async fn timeout_kills_the_whole_group() {
    let shop = Workshop::new();
    let mut witness = shop.witness();
    let clock = Clock::manual(Timestamp::from_millis(0));
    let engine = start_at(&clock, shop.single(STUBBORN).build().unwrap().timeout(TIMEOUT)).await;
    let job = engine.submit_raw("work", &json!({})).max_attempts(1).await.unwrap();
    witness.begun().await;
    clock.advance(TIMEOUT);
    assert_eq!(job.wait().await.unwrap().job.error.unwrap().code, "timeout");
    witness.ended().await;
}

#[tokio::test]
async fn timeout_deletes_the_working_folder() {
    let shop = Workshop::new();
    let mut witness = shop.witness();
    let clock = Clock::manual(Timestamp::from_millis(0));
    let text = format!("touch here; {STAYS}");
    let engine = start_at(&clock, shop.single(&text).build().unwrap().timeout(TIMEOUT)).await;
    let job = engine.submit_raw("work", &json!({})).max_attempts(1).await.unwrap();
    witness.begun().await;
    clock.advance(TIMEOUT);
    job.wait().await.unwrap();
    // Nobody waits for it when an attempt is dropped, so nothing tells us but the folder itself.
    while fs::read_dir(shop.work_root()).unwrap().count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn step_that_takes_too_long_is_asked_to_end() {
    let shop = Workshop::new();
    let mut witness = shop.witness();
    let clock = Clock::manual(Timestamp::from_millis(0));
    let steps = vec![shop.step("slow", POLITE).timeout(TIMEOUT)];
    let kind = shop.pipeline(steps).stop_grace(Duration::MAX).build().unwrap();
    let engine = start_at(&clock, kind).await;
    let job = engine.submit_raw("work", &json!({})).max_attempts(1).await.unwrap();
    witness.begun().await;
    clock.advance(TIMEOUT);
    let error = job.wait().await.unwrap().job.error.unwrap();
    assert_eq!((error.code.as_str(), error.retryable), ("timeout", true));
    assert_eq!(witness.ended().await, "bye\n");
}

#[tokio::test]
async fn cancelled_program_is_asked_to_end() {
    let shop = Workshop::new();
    let mut witness = shop.witness();
    let engine = start(shop.single(POLITE).build().unwrap()).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    witness.begun().await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Cancelled);
    assert_eq!(witness.ended().await, "bye\n");
}

#[tokio::test]
async fn cancelled_step_is_asked_to_end() {
    let shop = Workshop::new();
    let mut witness = shop.witness();
    let engine = start(shop.pipeline(vec![shop.step("only", POLITE)]).build().unwrap()).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    witness.begun().await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Cancelled);
    assert_eq!(witness.ended().await, "bye\n");
}

#[tokio::test]
async fn program_that_does_not_listen_is_killed_after_its_grace() {
    let shop = Workshop::new();
    let mut witness = shop.witness();
    let kind = shop.single(STUBBORN).stop_grace(Duration::from_millis(1)).build().unwrap();
    let engine = start(kind).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    witness.begun().await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Cancelled);
    witness.ended().await;
}

#[tokio::test]
async fn released_attempt_leaves_no_process() {
    let shop = Workshop::new();
    let mut witness = shop.witness();
    let kind = at_once(shop.single(STAYS).build().unwrap());
    let engine = Engine::builder().memory().register(kind).stop_grace(Duration::ZERO);
    let engine = engine.start().await.unwrap();
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    witness.begun().await;
    engine.stop().await;
    witness.ended().await;
    assert_eq!(job.record().await.unwrap().job.status, Status::Pending);
}

#[tokio::test]
async fn program_may_not_leave_processes_behind() {
    let shop = Workshop::new();
    let witness = shop.witness();
    // The one left behind also holds stdout and stderr open.
    let text = r#"exec 3>"$SHOP/life"; echo begun >&3; sleep 86400 & echo 7"#;
    assert_eq!(result(&shop.run(shop.single(text), json!({})).await), json!(7));
    witness.ended().await;
}
