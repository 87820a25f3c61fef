use std::time::Duration;

use axum::http::{Method, StatusCode};
use longhaul::TenantId;
use longhaul::store::accounts::AuditFilter;
use longhaul_server::auth::{AuditContext, AuthSettings};
use serde_json::{Value, json};

use crate::harness::{Backend, TestResponse, TestServer, on_both_backends, redacted, status_url};

async fn key(server: &TestServer, admin: &str, wish: Value) -> Value {
    let response = server.post("/v1/keys").key(admin).json(wish).send().await;
    assert_eq!(response.status, StatusCode::CREATED, "{response:?}");
    response.json()
}

async fn tenant(server: &TestServer, admin: &str, id: &str) {
    let made = server.post("/v1/tenants").key(admin).json(json!({"id": id})).send().await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
}

async fn patch(server: &TestServer, admin: &str, id: &str, change: Value) -> TestResponse {
    let path = format!("/v1/tenants/{id}");
    server.request(Method::PATCH, &path).key(admin).json(change).send().await
}

fn text(key: &Value) -> String {
    key["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn requests_without_a_key_are_rejected_if_keys_are_required() {
    let (server, admin) = TestServer::with_keys().await;
    let none = server.get("/v1/jobs").send().await;
    assert_eq!(none.problem(), (401, "unauthorized".to_owned()));
    assert_eq!(none.header("www-authenticate"), Some("Bearer realm=\"longhaul\""));
    for (name, value) in [
        ("authorization", "Bearer lh_nonsense".to_owned()),
        ("authorization", format!("Basic {admin}")),
        ("authorization", "Bearer".to_owned()),
        ("x-api-key", admin.replace("lh_", "lh-")),
    ] {
        let bad = server.get("/v1/jobs").header(name, &value).send().await;
        assert_eq!(bad.problem(), (401, "unauthorized".to_owned()), "{value}");
        assert!(!bad.text().contains(&admin));
    }
    for (name, value) in [
        ("authorization", format!("Bearer {admin}")),
        ("authorization", format!("bearer {admin}")),
        ("x-api-key", admin),
    ] {
        let good = server.get("/v1/jobs").header(name, &value).send().await;
        assert_eq!(good.status, StatusCode::OK, "{good:?}");
    }
    for open in ["/livez", "/readyz", "/healthz", "/openapi.json", "/docs"] {
        assert_eq!(server.get(open).send().await.status, StatusCode::OK, "{open}");
    }
    for shut in ["/metrics", "/"] {
        assert_eq!(server.get(shut).send().await.status, StatusCode::UNAUTHORIZED, "{shut}");
    }
}

#[tokio::test]
async fn unauthorized_submission_does_not_consume_its_idempotency_key() {
    let (server, admin) = TestServer::with_keys().await;
    let submit = |input: Value| {
        let ask = server.post("/v1/jobs").header("idempotency-key", "k");
        ask.json(json!({"kind": "echo", "input": input}))
    };
    assert_eq!(submit(json!(1)).send().await.status, StatusCode::UNAUTHORIZED);
    let accepted = submit(json!(2)).key(&admin).send().await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "{accepted:?}");
}

#[tokio::test]
async fn api_key_is_created_shown_once_listed_and_revoked() {
    let (server, admin) = TestServer::with_keys().await;
    let wish = json!({"tenant": "default", "name": "ci", "scopes": ["read"]});
    let made = key(&server, &admin, wish).await;
    let (id, secret) = (made["id"].as_str().unwrap(), text(&made));
    assert!(secret.starts_with(&format!("lh_{id}_")));
    let listed = server.get("/v1/keys").key(&admin).send().await;
    assert!(!listed.text().contains(&secret) && !listed.text().contains("digest"));
    let mut shown = listed.json()["keys"].as_array().unwrap().clone();
    shown.retain(|key| key["id"] == id);
    let mut shown = redacted(shown.remove(0));
    shown["id"] = "[id]".into();
    insta::assert_json_snapshot!(shown, @r#"
    {
      "id": "[id]",
      "tenant": "default",
      "name": "ci",
      "scopes": [
        "read"
      ],
      "createdAt": "[time]",
      "expiresAt": null,
      "revokedAt": null,
      "lastUsedAt": null,
      "requestsPerSecond": null,
      "rotatedFrom": null
    }
    "#);
    assert_eq!(server.get("/v1/jobs").key(&secret).send().await.status, StatusCode::OK);
    let path = format!("/v1/keys/{id}");
    let gone = server.delete(&path).key(&admin).send().await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(server.get("/v1/jobs").key(&secret).send().await.status, StatusCode::UNAUTHORIZED);
    let again = server.delete(&path).key(&admin).send().await;
    assert_eq!(again.status, StatusCode::NO_CONTENT, "saying it again is fine");
    for nobody in ["/v1/keys/nobody", "/v1/keys/%F0%9F"] {
        let nobody = server.delete(nobody).key(&admin).send().await;
        assert_eq!(nobody.problem(), (404, "key-not-found".to_owned()));
    }
}

#[tokio::test]
async fn rotated_api_key_has_a_successor_with_the_same_scopes() {
    let (server, admin) = TestServer::with_keys().await;
    let old = key(&server, &admin, json!({"name": "ci", "scopes": ["read"]})).await;
    let path = format!("/v1/keys/{}/rotate", old["id"].as_str().unwrap());
    let new = server.post(&path).key(&admin).json(json!({"overlap": "1h"})).send().await;
    assert_eq!(new.status, StatusCode::CREATED, "{new:?}");
    let new = new.json();
    assert_eq!((&new["scopes"], &new["rotatedFrom"]), (&json!(["read"]), &old["id"]));
    for key in [text(&old), text(&new)] {
        assert_eq!(server.get("/v1/jobs").key(&key).send().await.status, StatusCode::OK);
    }
    let at_once = format!("/v1/keys/{}/rotate", new["id"].as_str().unwrap());
    let newest = server.post(&at_once).key(&admin).json(json!({"overlap": "0s"})).send().await;
    assert_eq!(newest.status, StatusCode::CREATED);
    let replaced = server.get("/v1/jobs").key(&text(&new)).send().await;
    assert_eq!(replaced.status, StatusCode::UNAUTHORIZED);
    let too_long = server.post(&path).key(&admin).json(json!({"overlap": "367d"})).send().await;
    assert_eq!(too_long.problem(), (422, "validation".to_owned()));
}

#[tokio::test]
async fn api_key_allows_exactly_what_its_scopes_grant() {
    let (server, admin) = TestServer::with_keys().await;
    let with = async |scope: &str| {
        text(&key(&server, &admin, json!({"name": scope, "scopes": [scope]})).await)
    };
    let (submit, read) = (with("submit").await, with("read").await);
    let job =
        server.post("/v1/jobs").key(&submit).json(json!({"kind": "echo", "input": 1})).send().await;
    assert_eq!(job.status, StatusCode::ACCEPTED, "{job:?}");
    let job = job.json();
    assert_eq!(server.get(status_url(&job)).key(&read).send().await.status, StatusCode::OK);
    let cancel = format!("{}/cancel", status_url(&job));
    for (method, path, key) in [
        (Method::GET, status_url(&job), &submit),
        (Method::POST, "/v1/jobs", &read),
        (Method::POST, cancel.as_str(), &read),
        (Method::DELETE, status_url(&job), &read),
        (Method::GET, "/v1/keys", &submit),
        (Method::GET, "/v1/tenants", &read),
        (Method::GET, "/v1/audit", &read),
        (Method::GET, "/metrics", &read),
    ] {
        let refused = server.request(method, path).key(key).send().await;
        assert_eq!(refused.problem(), (403, "forbidden".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn invalid_key_and_tenant_requests_are_rejected_with_a_reason() {
    let (server, admin) = TestServer::with_keys().await;
    for (wish, code) in [
        (json!({"name": "x", "scopes": []}), 422),
        (json!({"name": "x", "scopes": ["root"]}), 422),
        (json!({"name": "x"}), 422),
        (json!({"name": "x", "scopes": ["read"], "secret": 1}), 422),
        (json!({"name": "a\nb", "scopes": ["read"]}), 422),
        (json!({"name": "n".repeat(201), "scopes": ["read"]}), 422),
        (json!({"name": "x", "scopes": ["read"], "expiresAt": "tomorrow"}), 422),
        (json!({"name": "x", "scopes": ["read"], "expiresAt": "2020-01-01T00:00:00Z"}), 422),
        (json!({"name": "x", "scopes": ["read"], "requestsPerSecond": 0}), 422),
        (json!({"name": "x", "scopes": ["read"], "tenant": "a b"}), 422),
        (json!({"name": "x", "scopes": ["read"], "tenant": "nobody"}), 404),
    ] {
        let refused = server.post("/v1/keys").key(&admin).json(wish.clone()).send().await;
        assert_eq!(refused.status.as_u16(), code, "{wish}: {refused:?}");
    }
    let none = server.get("/v1/keys").key(&admin).send().await.json();
    assert_eq!(none["keys"].as_array().unwrap().len(), 1, "only the first one is there");
}

#[tokio::test]
async fn tenant_is_created_changed_and_listed() {
    let (server, admin) = TestServer::with_keys().await;
    tenant(&server, &admin, "acme").await;
    let again = server.post("/v1/tenants").key(&admin).json(json!({"id": "acme"})).send().await;
    assert_eq!(again.problem(), (409, "tenant-exists".to_owned()));
    let limits = json!({"pendingMax": 7, "requestsPerSecond": 9});
    let change = json!({"subscription": "past_due", "name": "Acme", "limits": limits});
    patch(&server, &admin, "acme", change).await;
    let changed = patch(&server, &admin, "acme", json!({"limits": {"requestsPerSecond": null}}));
    let mut changed = redacted(changed.await.json());
    assert!(changed["inactiveSince"].take().is_string());
    insta::assert_json_snapshot!(changed, @r#"
    {
      "id": "acme",
      "name": "Acme",
      "subscription": "past_due",
      "inactiveSince": null,
      "limits": {
        "requestsPerSecond": null,
        "pendingMax": 7,
        "runningMax": null,
        "storedBytesMax": null,
        "inputBytesMax": null
      },
      "billingId": null,
      "createdAt": "[time]"
    }
    "#);
    let listed = server.get("/v1/tenants?limit=1").key(&admin).send().await.json();
    assert_eq!(
        (&listed["tenants"][0]["id"], &listed["nextCursor"]),
        (&json!("acme"), &json!("acme"))
    );
    let rest = server.get("/v1/tenants?cursor=acme").key(&admin).send().await.json();
    assert_eq!((&rest["tenants"][0]["id"], &rest["nextCursor"]), (&json!("default"), &Value::Null));
    for (id, code) in [
        ("nobody", "tenant-not-found"),
        ("a%20b", "tenant-not-found"),
        ("%F0%9F", "tenant-not-found"),
    ] {
        let path = format!("/v1/tenants/{id}");
        assert_eq!(server.get(&path).key(&admin).send().await.problem().1, code);
        assert_eq!(patch(&server, &admin, id, json!({})).await.problem().1, code);
    }
    let wrong = patch(&server, &admin, "acme", json!({"limits": {"runningMax": 0}})).await;
    assert_eq!(wrong.problem(), (422, "validation".to_owned()));
}

#[tokio::test]
async fn suspended_tenant_can_only_cancel_and_delete_jobs() {
    let (server, admin) = TestServer::with_keys().await;
    tenant(&server, &admin, "acme").await;
    let wish = json!({"tenant": "acme", "name": "x", "scopes": ["submit", "read"]});
    let key = text(&key(&server, &admin, wish).await);
    let submit = || server.post("/v1/jobs").key(&key).json(json!({"kind": "gated", "input": 1}));
    let job = submit().send().await.json();
    for inactive in ["past_due", "suspended"] {
        patch(&server, &admin, "acme", json!({"subscription": inactive})).await;
        let polled = server.get(status_url(&job)).key(&key).send().await;
        assert_eq!(polled.problem(), (402, "subscription-inactive".to_owned()));
        assert_eq!(submit().send().await.problem(), (402, "subscription-inactive".to_owned()));
    }
    let cancelled = server.post(&format!("{}/cancel", status_url(&job))).key(&key).send().await;
    assert!(cancelled.status.is_success(), "{cancelled:?}");
    patch(&server, &admin, "acme", json!({"subscription": "active"})).await;
    assert_eq!(server.get(status_url(&job)).key(&key).send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn past_due_tenant_keeps_access_during_its_grace_period() {
    let settings = AuthSettings {
        require_keys: true,
        grace: Duration::from_hours(1),
        ..AuthSettings::default()
    };
    let (server, admin) = TestServer::builder().auth(settings).start_with_key().await;
    patch(&server, &admin, "default", json!({"subscription": "past_due"})).await;
    assert_eq!(server.get("/v1/jobs").key(&admin).send().await.status, StatusCode::OK);
    patch(&server, &admin, "default", json!({"subscription": "suspended"})).await;
    assert_eq!(server.get("/v1/jobs").key(&admin).send().await.problem().0, 402);
}

#[tokio::test]
async fn rate_limited_key_gets_429_with_retry_after() {
    let (server, admin) = TestServer::with_keys().await;
    tenant(&server, &admin, "acme").await;
    patch(&server, &admin, "acme", json!({"limits": {"requestsPerSecond": 1}})).await;
    let wish = json!({"tenant": "acme", "name": "x", "scopes": ["read"]});
    let acme = text(&key(&server, &admin, wish).await);
    let first = server.get("/v1/jobs").key(&acme).send().await;
    assert_eq!(first.status, StatusCode::OK);
    assert_eq!(first.header("ratelimit-policy"), Some("\"requests\";q=1;w=1"));
    assert_eq!(first.header("ratelimit"), Some("\"requests\";r=0;t=1"));
    let mut second = server.get("/v1/jobs").key(&acme).send().await;
    // A slow machine may take a second for it.
    while second.status == StatusCode::OK {
        second = server.get("/v1/jobs").key(&acme).send().await;
    }
    assert_eq!(second.problem(), (429, "too-many-requests".to_owned()));
    assert_eq!(second.header("retry-after"), Some("1"));
    let other = server.get("/v1/jobs").key(&admin).send().await;
    assert_eq!(other.status, StatusCode::OK);
    assert_eq!(other.header("ratelimit"), None, "it has no limit");
}

#[tokio::test]
async fn audit_log_records_actions_with_their_actor() {
    let (server, admin) = TestServer::with_keys().await;
    let wish = json!({"name": "ops", "scopes": ["submit", "read"]});
    let made = key(&server, &admin, wish).await;
    let (ops, ops_id) = (text(&made), made["id"].as_str().unwrap().to_owned());
    let job = server
        .post("/v1/jobs")
        .key(&ops)
        .json(json!({"kind": "gated", "input": 1}))
        .send()
        .await
        .json();
    let cancel = server.post(&format!("{}/cancel", status_url(&job))).key(&ops);
    let cancelled = cancel.header("x-request-id", "req-77").send().await;
    assert!(cancelled.status.is_success());
    server.post("/v1/queues/mail/pause").key(&ops).send().await;
    let filter = json!({"filter": {"kind": "echo"}});
    server.post("/v1/jobs/cancel").key(&ops).json(filter).send().await;
    let audit = async |query: &str| {
        let path = format!("/v1/audit{query}");
        let response = server.get(&path).key(&admin).send().await;
        assert_eq!(response.status, StatusCode::OK, "{response:?}");
        assert!(!response.text().contains(&ops) && !response.text().contains(&admin));
        response.json()["entries"].as_array().unwrap().clone()
    };
    let actions = audit("").await;
    let words: Vec<_> = actions.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    let expected = ["jobs.cancel", "queue.pause", "job.cancel", "key.create", "key.create"];
    assert_eq!(words, expected);
    let id = job["jobId"].as_str().unwrap();
    let of_job = audit(&format!("?target={id}")).await;
    assert_eq!(of_job.len(), 1);
    assert_eq!(of_job[0]["actor"], format!("key:{ops_id}"));
    assert_eq!(of_job[0]["requestId"], "req-77");
    assert_eq!(actions[0]["detail"], r#"{"kind":"echo"}"#);
    assert_eq!(audit("?tenant=nobody").await.len(), 0);
    assert_eq!(audit("?limit=2").await.len(), 2);
}

/// Entries of one millisecond are listed in the order of their actions.
async fn audit_entries_of_one_millisecond_keep_their_order(backend: Backend) {
    let builder = TestServer::builder().backend(backend).expire_keys_by_request_clock();
    let server = builder.start().await;
    let (auth, tenant) = (&server.state.auth, TenantId::default());
    for place in 0..50 {
        let server = AuditContext::server();
        let entry =
            auth.audit_entry(&server, &tenant, "queue.pause", &place.to_string(), String::new());
        auth.accounts().record_audit(&[entry]).await.unwrap();
    }
    let filter = AuditFilter { tenant: None, target: None, before: None, limit: 100 };
    let entries = auth.accounts().audit_log(&filter).await.unwrap().entries;
    let targets: Vec<u32> = entries.iter().map(|entry| entry.target.parse().unwrap()).collect();
    assert_eq!(targets, (0..50).rev().collect::<Vec<_>>());
    assert_eq!(entries[0].at, entries[49].at);
}

/// A key may expire as late as a timestamp can express.
async fn key_that_expires_in_the_last_year_is_accepted(backend: Backend) {
    let builder = TestServer::builder().backend(backend).require_keys();
    let (server, admin) = builder.start_with_key().await;
    for expires_at in ["2999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"] {
        let wish = json!({"name": "x", "scopes": ["read"], "expiresAt": expires_at});
        let made = key(&server, &admin, wish).await;
        for _ in ["read from the store", "cached"] {
            let accepted = server.get("/v1/jobs").key(&text(&made)).send().await;
            assert_eq!(accepted.status, StatusCode::OK, "{accepted:?}");
        }
        let path = format!("/v1/keys/{}/rotate", made["id"].as_str().unwrap());
        let rotated = server.post(&path).key(&admin).json(json!({"overlap": "366d"})).send().await;
        assert_eq!(rotated.status, StatusCode::CREATED, "{rotated:?}");
        let rotated = rotated.json();
        assert_eq!(rotated["expiresAt"], made["expiresAt"]);
        let accepted = server.get("/v1/jobs").key(&text(&rotated)).send().await;
        assert_eq!(accepted.status, StatusCode::OK, "{accepted:?}");
    }
}

on_both_backends! {
    audit_entries_of_one_millisecond_keep_their_order,
    key_that_expires_in_the_last_year_is_accepted,
}

#[tokio::test]
async fn tenant_limits_override_the_server_limits() {
    let (server, admin) = TestServer::with_keys().await;
    tenant(&server, &admin, "acme").await;
    let wish = json!({"tenant": "acme", "name": "x", "scopes": ["submit", "read"]});
    let acme = text(&key(&server, &admin, wish).await);
    let submit = async |key: &str, kind: &str, input: Value| {
        let ask = server.post("/v1/jobs").key(key).json(json!({"kind": kind, "input": input}));
        ask.send().await
    };
    patch(&server, &admin, "acme", json!({"limits": {"runningMax": 1, "inputBytesMax": 9}})).await;
    let long = submit(&acme, "echo", json!("0123456789")).await;
    assert_eq!(long.problem(), (413, "payload-too-large".to_owned()));
    let other = submit(&admin, "echo", json!("0123456789")).await;
    assert_eq!(other.status, StatusCode::ACCEPTED, "{other:?}");
    let (first, second) = (
        submit(&acme, "gated", json!(1)).await.json(),
        submit(&acme, "gated", json!(2)).await.json(),
    );
    while server.get(status_url(&first)).key(&acme).send().await.json()["status"] != "running" {
        tokio::task::yield_now().await;
    }
    let waits = server.get(status_url(&second)).key(&acme).send().await.json();
    assert_eq!(waits["status"], "pending");
    patch(&server, &admin, "acme", json!({"limits": {"pendingMax": 1}})).await;
    let full = submit(&acme, "echo", json!(1)).await;
    assert_eq!(full.problem(), (429, "pending-limit".to_owned()));
    patch(&server, &admin, "acme", json!({"limits": {"pendingMax": null, "runningMax": null}}))
        .await;
    assert_eq!(submit(&acme, "echo", json!(1)).await.status, StatusCode::ACCEPTED);
    server.open_gate();
    server.open_gate();
}
