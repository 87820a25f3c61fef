use axum::http::StatusCode;
use serde_json::json;

use super::browser::Browser;
use crate::harness::TestServer;

#[tokio::test]
async fn empty_overview_shows_the_submit_command() {
    let server = TestServer::start().await;
    let page = Browser::of(&server).page("/").await;
    for said in [
        "No jobs yet",
        "longhaul submit demo",
        "All clear.",
        "No queue has unfinished jobs",
        ">test<",
    ] {
        assert!(page.contains(said), "{said} in {page}");
    }
}

#[tokio::test]
async fn overview_lists_failures_and_paused_queues_first() {
    let server = TestServer::start().await;
    server.run("fails", json!(1)).await;
    server.run("echo", json!(1)).await;
    let browser = Browser::of(&server);
    let sent = browser.send("/ui/jobs", "/ui/queues/default/pause", &[]).await;
    assert!(browser.follow(&sent).await.contains("Queue paused."));
    server.submit("echo", json!(2)).await;
    let page = browser.page("/").await;
    let (first, _) = page.split_once("Jobs by status").unwrap();
    assert!(first.contains("is paused") && first.contains("1 of 1 jobs failed"), "{first}");
    assert!(
        page.contains("Failing kinds") && page.contains("the disk is made of cheese"),
        "{page}"
    );
    assert!(page.contains("1 completed, 1 failed in total"), "{page}");
    let sent = browser.send("/", "/ui/queues/default/resume", &[]).await;
    assert_eq!(sent.header("location"), Some("/?did=go-on"));
    let wrong = browser.send("/", "/ui/queues/a%20b/pause", &[]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn usage_page_groups_by_day_and_hour() {
    let server = TestServer::start().await;
    let browser = Browser::of(&server);
    assert!(browser.page("/ui/usage").await.contains("longhaul usage"));
    server.run("steps", json!(null)).await;
    for span in ["24h", "30d", "90d"] {
        let page = browser.page(&format!("/ui/usage?span={span}")).await;
        assert!(
            page.contains("<strong>1</strong>jobs") && page.contains("<strong>2</strong>steps"),
            "{page}"
        );
    }
    assert_eq!(browser.get("/ui/usage?span=1y").await.status, StatusCode::BAD_REQUEST);
}
