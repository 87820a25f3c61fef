use axum::http::Method;
use serde_json::json;

use crate::harness::TestServer;

#[tokio::test]
async fn metrics_count_requests_by_route_and_jobs_by_queue() {
    let server = TestServer::start().await;
    let body = json!({"kind": "gated", "input": 1, "queue": "metered", "delay": "1h"});
    let job = server.post("/v1/jobs").json(body).send().await.json();
    server.get(job["statusUrl"].as_str().unwrap()).send().await;
    server.get("/nowhere").send().await;
    let response = server.get("/metrics").send().await;
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = response.text();
    for line in [
        r#"longhaul_http_request_seconds_count{method="POST",route="/v1/jobs",status="202"}"#,
        r#"longhaul_http_request_seconds_bucket{method="GET",route="/v1/jobs/{id}",status="200",le="0.001"}"#,
        r#"longhaul_http_request_seconds_count{method="GET",route="none",status="404"}"#,
        r#"longhaul_queue_jobs{queue="metered",status="pending"} 1"#,
        r#"longhaul_queue_paused{queue="metered"} 0"#,
        r#"longhaul_queue_oldest_due_seconds{queue="metered"} 0"#,
        "longhaul_jobs_running ",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains(job["jobId"].as_str().unwrap()), "ids make a series per job");
}

#[tokio::test]
async fn metrics_sum_queues_over_all_tenants_without_naming_them() {
    let (server, admin) = TestServer::with_keys().await;
    server.post("/v1/tenants").key(&admin).json(json!({"id": "acme"})).send().await;
    let wish = json!({"tenant": "acme", "name": "x", "scopes": ["submit", "read"]});
    let made = server.post("/v1/keys").key(&admin).json(wish).send().await.json();
    let acme = made["key"].as_str().unwrap();
    for key in [acme, &admin] {
        let body = json!({"kind": "gated", "input": 1, "queue": "metered", "delay": "1h"});
        let job = server.post("/v1/jobs").key(key).json(body).send().await;
        assert_eq!(job.status.as_u16(), 202, "{job:?}");
    }
    server.post("/v1/queues/metered/pause").key(acme).send().await;
    assert_eq!(server.get("/metrics").key(acme).send().await.problem().0, 403);
    let response = server.get("/metrics").key(&admin).send().await;
    let text = response.text();
    for line in [
        r#"longhaul_queue_jobs{queue="metered",status="pending"} 2"#,
        r#"longhaul_queue_paused{queue="metered"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("acme"), "{text}");
}

#[tokio::test]
async fn metrics_put_unknown_methods_into_one_series() {
    let server = TestServer::start().await;
    for word in ["BREW", "X-1"] {
        server.request(Method::from_bytes(word.as_bytes()).unwrap(), "/healthz").send().await;
    }
    let response = server.get("/metrics").send().await;
    let text = response.text();
    assert!(text.contains(r#"method="other""#), "{text}");
    assert!(!text.contains("BREW") && !text.contains("X-1"), "{text}");
}
