use serde_json::{Value, json};

use crate::harness::TestServer;

async fn list(server: &TestServer, query: &str) -> Value {
    server.get(&format!("/v1/jobs?{query}")).send().await.json()
}

fn ids(list: &Value) -> Vec<&str> {
    list["jobs"].as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn job_pages_are_newest_first_and_contain_every_job_once() {
    let server = TestServer::start().await;
    let mut submitted = Vec::new();
    for n in 0..7 {
        let job = server.submit("gated", json!(n)).await;
        submitted.push(job["jobId"].as_str().unwrap().to_owned());
    }
    submitted.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&server, &format!("limit=3{cursor}")).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, submitted);
}

#[tokio::test]
async fn page_without_matches_is_empty_and_has_a_cursor() {
    let server = TestServer::start().await;
    let labelled = server.one_job_among_thousands(json!({"team": "blue"})).await;
    let first = list(&server, "label.team=blue&limit=10").await;
    assert_eq!(first["jobs"], json!([]));
    let next = first["nextCursor"].as_str().unwrap();
    let second = list(&server, &format!("label.team=blue&limit=10&cursor={next}")).await;
    assert_eq!((ids(&second), &second["nextCursor"]), (vec![labelled.as_str()], &json!(null)));
}

#[tokio::test]
async fn job_list_has_every_field_except_the_result() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!("secret")).await;
    let page = list(&server, "").await;
    let mut expected: Vec<&String> = job.as_object().unwrap().keys().collect();
    expected.retain(|key| *key != "result");
    let listed: Vec<&String> = page["jobs"][0].as_object().unwrap().keys().collect();
    assert_eq!(listed, expected);
    assert_eq!(page["nextCursor"], json!(null));
    assert!(!page.to_string().contains("secret"));
}

#[tokio::test]
async fn job_list_filters_by_status_kind_queue_and_labels() {
    let server = TestServer::start().await;
    let done = server.run("echo", json!(1)).await;
    let failed = server.run("fails", json!(1)).await;
    let body = json!({"kind": "gated", "input": 1, "queue": "slow", "labels": {"team": "blue", "a.b": "c d"}});
    let labelled = server.post("/v1/jobs").json(body).send().await.json();
    let id = |job: &Value| job["jobId"].as_str().unwrap().to_owned();
    for (query, expected) in [
        ("status=completed", vec![id(&done)]),
        ("status=completed&status=failed", vec![id(&failed), id(&done)]),
        ("status=completed,failed", vec![id(&failed), id(&done)]),
        ("kind=fails", vec![id(&failed)]),
        ("queue=slow", vec![id(&labelled)]),
        ("label.team=blue&label.a.b=c+d", vec![id(&labelled)]),
        ("label.team=red", vec![]),
        ("createdAfter=2020-01-01T00:00:00Z&kind=echo", vec![id(&done)]),
        ("createdAfter=2099-01-01T00:00:00Z", vec![]),
    ] {
        assert_eq!(ids(&list(&server, query).await), expected, "{query}");
    }
}

#[tokio::test]
async fn invalid_list_query_is_400() {
    let server = TestServer::start().await;
    for query in [
        "cursor=garbage",
        "cursor=",
        "status=done",
        "limit=0",
        "limit=many",
        "createdAfter=yesterday",
        "kind=a/b",
        "colour=red",
    ] {
        let response = server.get(&format!("/v1/jobs?{query}")).send().await;
        assert_eq!(response.problem(), (400, "bad-request".to_owned()), "{query}");
    }
}

#[tokio::test]
async fn page_size_over_its_limit_is_rejected() {
    let server = TestServer::start().await;
    let response = server.get("/v1/jobs?limit=1001").send().await;
    assert_eq!(response.problem(), (422, "validation".to_owned()));
}
