//! Idempotency and authentication of proxied requests.

use axum::http::Method;
use serde_json::Value;

use super::proxy_server::{ProxyOptions, ProxyServer, id_of, json_of, problem_of};
use crate::harness::{Backend, FakeHttpServer, Reply, on_both_backends};

async fn repeated_proxied_request_is_the_same_job(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Answer(200, "", "once")).await;
    let server = ProxyServer::start(target.address, backend).await;
    let ask = |path: &str, trace: &'static str, body: &'static str| {
        server
            .request(Method::POST, path)
            .header("idempotency-key", "order-1")
            .header("content-type", "text/plain")
            .header("traceparent", trace)
            .header("cookie", trace)
            .body(body)
    };
    let first = ask("/sync/a?x=1", "one", "body").send().await.unwrap();
    let id = id_of(&first);
    assert_eq!(first.text().await.unwrap(), "once");
    // Also on another route, because only the forwarded request counts.
    let again = ask("/passing/a?x=1&mode=sync", "two", "body").send().await.unwrap();
    assert_eq!((id_of(&again), again.text().await.unwrap().as_str()), (id.clone(), "once"));
    // Chunked, without a content length.
    let pieces = ["bo", "dy"].map(Ok::<_, std::io::Error>);
    let pieces = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let again = ask("/sync/a?x=1", "four", "").body(pieces).send().await.unwrap();
    assert_eq!(id_of(&again), id);
    let job = json_of(ask("/reports/a?x=1", "three", "body")).await;
    assert_eq!((&job["jobId"], &job["status"]), (&Value::from(id), &"completed".into()));
    let got = target.all();
    assert_eq!((got.len(), got[0].header("idempotency-key")), (1, "order-1"));

    let reused = (422, "idempotency-key-reused".to_owned());
    for other in [
        ask("/sync/a?x=1", "one", "another body"),
        ask("/sync/b?x=1", "one", "body"),
        ask("/sync/a?x=2", "one", "body"),
        ask("/sync/a", "one", "body"),
        ask("/sync/a?x=1", "one", ""),
        server
            .request(Method::PUT, "/sync/a?x=1")
            .header("idempotency-key", "order-1")
            .body("body"),
    ] {
        assert_eq!(problem_of(other).await, reused);
    }
    assert_eq!(target.all().len(), 1);
}

async fn proxied_request_requires_the_submit_scope(backend: Backend) {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start_with(
        target.address,
        backend,
        ProxyOptions { require_keys: true, ..ProxyOptions::default() },
    )
    .await;
    let make = async |tenant: &str, scopes: &[&str]| {
        let body = serde_json::json!({"name": "k", "tenant": tenant, "scopes": scopes});
        json_of(server.post("/v1/keys").json(&body)).await["key"].as_str().unwrap().to_owned()
    };
    for tenant in ["acme", "other"] {
        let body = serde_json::json!({"id": tenant, "name": tenant});
        assert_eq!(server.post("/v1/tenants").json(&body).send().await.unwrap().status(), 201);
    }
    let reader = make("acme", &["read"]).await;
    let acme = make("acme", &["submit", "read"]).await;
    let other = make("other", &["submit", "read"]).await;
    let url = format!("http://{}/passing", server.address);
    let ask = || server.client.post(&url).header("idempotency-key", "k").body("x");
    assert_eq!(problem_of(ask()).await, (401, "unauthorized".to_owned()));
    // A token for the target is not an API key and does not authenticate.
    let foreign = ask().header("authorization", "Bearer of-the-target");
    assert_eq!(problem_of(foreign).await, (401, "unauthorized".to_owned()));
    assert_eq!(problem_of(ask().bearer_auth(&reader)).await, (403, "forbidden".to_owned()));
    let mistyped = format!("{}x", &acme);
    assert_eq!(problem_of(ask().bearer_auth(mistyped)).await, (401, "unauthorized".to_owned()));
    assert_eq!(target.all().len(), 0);

    // An API key authenticates in either header and is not forwarded.
    let by_bearer = ask().bearer_auth(&acme).send().await.unwrap();
    let by_field = ask().header("x-api-key", &other).header("authorization", "Basic dGFyZ2V0");
    let by_field = by_field.send().await.unwrap();
    assert_eq!((by_bearer.status().as_u16(), by_field.status().as_u16()), (200, 200));
    let got = target.first(2).await;
    assert!(!got[0].head.contains("authorization"), "{}", got[0].head);
    assert_eq!(got[1].header("authorization"), "Basic dGFyZ2V0");
    assert!(got.iter().all(|got| !got.head.contains("lh_")));

    // One key of each of two tenants: two jobs, and neither sees the other's.
    let (mine, theirs) = (id_of(&by_bearer), id_of(&by_field));
    assert_ne!(mine, theirs);
    for (id, key, status) in [(&mine, &acme, 200), (&mine, &other, 404), (&theirs, &acme, 404)] {
        for path in ["", "/result", "/input", "/steps"] {
            let asked = server.client.get(format!("http://{}/v1/jobs/{id}{path}", server.address));
            assert_eq!(asked.bearer_auth(key).send().await.unwrap().status(), status, "{path}");
        }
    }
}

on_both_backends! {
    repeated_proxied_request_is_the_same_job,
    proxied_request_requires_the_submit_scope,
}
