use serde_json::json;

use crate::harness::TestServer;

#[tokio::test]
async fn pages_load_no_external_resources() {
    let server = TestServer::start().await;
    for path in ["/", "/docs"] {
        let response = server.get(path).send().await;
        assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(response.header("content-security-policy").unwrap().contains("default-src 'none'"));
        assert!(!response.text().contains("://"), "{path}");
    }
}

#[tokio::test]
async fn docs_list_every_operation() {
    let server = TestServer::start().await;
    let page = server.get("/docs").send().await;
    for operation in ["GET /v1/jobs/{id}", "POST /v1/jobs/batch", "DELETE /v1/jobs/{id}"] {
        assert!(page.text().contains(operation), "{operation}");
    }
}

#[tokio::test]
async fn job_texts_are_escaped_in_the_overview() {
    let server = TestServer::start().await;
    let job = server.run("fails", json!("<b>bold</b>")).await;
    let page = server.get("/").send().await;
    assert!(page.text().contains(job["jobId"].as_str().unwrap()));
    assert!(page.text().contains("the disk is made of cheese"));
    assert!(!page.text().contains("<b>bold"));
}
