//! Concurrent render requests: overload is rejected, and no accepted request is lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use super::api::{ask, flow, get, pause, resume};
use crate::e2e::submit::end;
use crate::harness::Installation;

#[tokio::test]
async fn full_render_queue_rejects_until_jobs_finish() {
    let install = Installation::with("[queues.render]\npending_max = 3\n");
    let _server = install.start().await;
    pause(&install).await;
    for label in ["one", "two", "three"] {
        assert_eq!(ask(&install, "POST /render", &flow(label)).await.status, 202);
    }
    let refused = ask(&install, "POST /render", &flow("four")).await;
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    let why = "queue render has reached its limit of 3 pending jobs";
    assert_eq!(refused.json(), json!({"error": why}));
    // A repeated request joins the pending job, and other queues are not affected.
    assert_eq!(ask(&install, "POST /render", &flow("one")).await.status, 202);
    let other = ask(&install, "POST /v1/jobs", &json!({"kind": "demo", "input": {}})).await;
    assert_eq!(other.status, 202);
    // The same queue by another way is as full.
    let kind = json!({"kind": "render", "input": flow("five")});
    assert_eq!(ask(&install, "POST /v1/jobs", &kind).await.problem().1, "pending-limit");

    resume(&install).await;
    let four = loop {
        let response = ask(&install, "POST /render", &flow("four")).await;
        if response.status != 429 {
            break response;
        }
    };
    let four = four.json();
    if let Some(id) = four["jobId"].as_str() {
        end(&install.client(), id).await;
    }
    assert_eq!(ask(&install, "POST /render", &flow("four")).await.json()["cached"], true);
}

/// A thousand callers, of which every one comes back until it is let in. What the line holds at once is counted by
/// the server itself, at every submission; this test checks the rejections and that each client gets its own image.
#[tokio::test]
async fn thousand_concurrent_render_requests_all_complete() {
    const CALLERS: usize = 1_000;
    const DIAGRAMS: usize = 100;
    let install = Arc::new(Installation::with("[queues.render]\npending_max = 40\n"));
    let _server = install.start().await;
    // A rejected client retries when another image is finished, because a slot is free then, or after its
    // `Retry-After`.
    let ended = Arc::new(Notify::new());
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (install, ended) = (Arc::clone(&install), Arc::clone(&ended));
            tokio::spawn(async move {
                let label = format!("diagram{}", caller % DIAGRAMS);
                let mut refused = 0;
                loop {
                    let mut room = std::pin::pin!(ended.notified());
                    room.as_mut().enable();
                    let response = ask(&install, "POST /render?mode=sync", &flow(&label)).await;
                    match response.status {
                        200 => {
                            ended.notify_waiters();
                            break (label, response.json(), refused);
                        }
                        429 => refused += 1,
                        _ => panic!("{response:?}"),
                    }
                    drop(tokio::time::timeout(Duration::from_secs(1), room).await);
                }
            })
        })
        .collect();
    let mut links = HashSet::new();
    let mut refused = 0;
    for caller in callers {
        let (label, response, times) = caller.await.unwrap();
        refused += times;
        let url = response["url"].as_str().unwrap().to_owned();
        if links.insert((label.clone(), url.clone())) {
            let picture = get(&install, &url).await;
            assert!(picture.body.contains(&format!(">{label}<")), "{label}: {picture:?}");
        }
    }
    assert_eq!(links.len(), DIAGRAMS, "one link each");
    assert!(refused > 0, "the limit was never met");
    let counted = get(&install, "/v1/jobs?kind=render&limit=1000").await.json();
    let jobs = counted["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), DIAGRAMS, "and one job");
    assert!(jobs.iter().all(|job| job["status"] == "completed" && job["attempt"] == 1));
}
