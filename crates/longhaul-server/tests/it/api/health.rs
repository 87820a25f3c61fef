use axum::http::StatusCode;

use crate::harness::TestServer;

#[tokio::test]
async fn running_server_is_alive_and_ready() {
    let server = TestServer::start().await;
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(server.get(path).send().await.status, StatusCode::OK, "{path}");
    }
    let health = server.get("/healthz").send().await.json();
    assert_eq!((&health["status"], &health["replica"]), (&"ok".into(), &"test".into()));
}

#[tokio::test]
async fn health_of_a_server_with_keys_shows_no_replica_and_no_counts() {
    let (server, _) = TestServer::with_keys().await;
    let health = server.get("/healthz").send().await.json();
    let keys: Vec<&String> = health.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["status", "version"]);
}

#[tokio::test]
async fn stopping_server_is_alive_and_not_ready() {
    let server = TestServer::start().await;
    server.state.stop.cancel();
    assert_eq!(server.get("/livez").send().await.status, StatusCode::OK);
    for path in ["/readyz", "/healthz"] {
        let response = server.get(path).send().await;
        assert_eq!(response.problem(), (503, "unavailable".to_owned()), "{path}");
    }
}
