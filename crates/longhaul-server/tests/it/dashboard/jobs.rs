use axum::http::StatusCode;
use serde_json::{Value, json};

use super::browser::{Browser, id_of, key, run};
use crate::harness::TestServer;

#[tokio::test]
async fn empty_job_list_shows_the_submit_command() {
    let server = TestServer::start().await;
    let page = Browser::of(&server).page("/ui/jobs").await;
    assert!(page.contains("No jobs yet") && page.contains("longhaul submit demo"));
}

#[tokio::test]
async fn job_list_filters_by_query() {
    let server = TestServer::start().await;
    let failed = id_of(&server.run("fails", json!(1)).await);
    let labelled =
        json!({"kind": "echo", "input": 1, "labels": {"team": "video"}, "queue": "mail"});
    let labelled = server.post("/v1/jobs?mode=sync").json(labelled).send().await.json();
    let labelled = id_of(&labelled);
    let browser = Browser::of(&server);
    for (query, only) in [
        ("status=failed", &failed),
        ("kind=fails", &failed),
        ("status=failed&status=cancelled&kind=&queue=&label=&q=", &failed),
        ("queue=mail", &labelled),
        ("label=team%3Dvideo", &labelled),
        ("label.team=video", &labelled),
        ("since=1h&status=completed", &labelled),
    ] {
        let page = browser.page(&format!("/ui/jobs?{query}")).await;
        for id in [&failed, &labelled] {
            assert_eq!(page.contains(id.as_str()), id == only, "{query}: {id}");
        }
    }
    let page = browser.page("/ui/jobs?kind=nothing").await;
    assert!(page.contains("No matching jobs"), "{page}");
    for wrong in ["status=done", "since=ever", "label=x", "stauts=failed", "cursor=x"] {
        let response = browser.get(&format!("/ui/jobs?{wrong}")).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn job_list_reads_on_until_its_page_is_full() {
    let server = TestServer::start().await;
    let labelled = server.one_job_among_thousands(json!({"team": "blue"})).await;
    let page = Browser::of(&server).page("/ui/jobs?label.team=blue").await;
    assert!(page.contains(&labelled) && !page.contains("rel=\"next\""), "{page}");
}

#[tokio::test]
async fn job_search_finds_ids_keys_and_errors() {
    let server = TestServer::start().await;
    let failed = id_of(&server.run("fails", json!(1)).await);
    let keyed = server.post("/v1/jobs?mode=sync").header("idempotency-key", "order-7");
    let keyed = id_of(&keyed.json(json!({"kind": "echo", "input": 1})).send().await.json());
    let browser = Browser::of(&server);
    for (text, only) in [
        (failed.as_str(), &failed),
        ("order-7", &keyed),
        ("made+of+CHEESE", &failed),
        ("cheese", &failed),
        ("ER-7", &keyed),
    ] {
        let page = browser.page(&format!("/ui/jobs?q={text}")).await;
        for id in [&failed, &keyed] {
            let shown = page.contains(&format!("data-row=\"/ui/jobs/{id}\""));
            assert_eq!(shown, id == only, "{text}: {id}");
        }
    }
    let page = browser.page("/ui/jobs?q=cheese").await;
    assert!(page.contains("1 match in all 2 jobs."), "{page}");
}

#[tokio::test]
async fn job_list_pages_follow_each_other() {
    let server = TestServer::start().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(id_of(&server.run("echo", json!(n)).await));
    }
    let browser = Browser::of(&server);
    let mut path = "/ui/jobs?limit=2&kind=echo".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = browser.page(&path).await;
        seen.extend(ids.iter().rev().filter(|id| page.contains(id.as_str())).cloned());
        let Some((_, link)) = page.split_once("rel=\"next\" href=\"") else { break };
        path = link.split('"').next().unwrap().replace("&amp;", "&");
        assert!(path.contains("kind=echo"), "{path}");
    }
    ids.reverse();
    assert_eq!(seen, ids);
}

#[tokio::test]
async fn bulk_actions_change_selected_jobs() {
    let server = TestServer::start().await;
    let (one, two) =
        (server.submit("gated", json!(1)).await, server.submit("gated", json!(2)).await);
    let other = server.submit("gated", json!(3)).await;
    for job in [&one, &two, &other] {
        server.until_running(job).await;
    }
    let browser = Browser::of(&server);
    let selected =
        [("job", one["jobId"].as_str().unwrap()), ("job", two["jobId"].as_str().unwrap())];
    let change = async |what: &str| {
        let fields = [&selected[..], &[("which", "selected"), ("filter", "kind=gated")]].concat();
        let sent = browser.send("/ui/jobs", &format!("/ui/jobs/bulk/{what}"), &fields).await;
        let page = browser.follow(&sent).await;
        assert!(sent.header("location").unwrap().starts_with("/ui/jobs?kind=gated&did="));
        page
    };
    assert!(change("cancel").await.contains("Cancelled 2 jobs."));
    for job in [&one, &two] {
        server.until(job, |job| job["status"] == "cancelled").await;
    }
    assert_eq!(
        server.get(&format!("/v1/jobs/{}", id_of(&other))).send().await.json()["status"],
        "running"
    );
    assert!(change("resume").await.contains("Resumed 2 jobs."));
    server.open_gate();
    server.open_gate();
    server.open_gate();
    for job in [&one, &two, &other] {
        server.until(job, |job| job["status"] == "completed").await;
    }
    assert!(change("purge").await.contains("Purged 2 jobs."));
    let none = browser.send("/ui/jobs", "/ui/jobs/bulk/purge", &[("which", "selected")]).await;
    assert_eq!(none.status, StatusCode::UNPROCESSABLE_ENTITY);
    let entries = server.get("/v1/audit").send().await.json();
    let done: Vec<&Value> =
        entries["entries"].as_array().unwrap().iter().map(|e| &e["action"]).collect();
    assert_eq!(
        done,
        ["job.purge", "job.purge", "job.resume", "job.resume", "job.cancel", "job.cancel"]
    );
}

#[tokio::test]
async fn enter_in_the_job_list_triggers_no_bulk_action() {
    let server = TestServer::start().await;
    server.run("echo", json!(1)).await;
    let page = Browser::of(&server).page("/ui/jobs").await;
    // Enter presses the form's first button, even one in a closed dialog.
    let (_, form) = page.split_once("<form id=\"bulk\"").unwrap();
    let (_, first) = form.split_once("<button").unwrap();
    assert!(first.starts_with(" formmethod=\"dialog\" hidden"), "{first}");
}

#[tokio::test]
async fn bulk_actions_change_all_matching_jobs() {
    let server = TestServer::start().await;
    server.run("echo", json!(1)).await;
    let failed = [server.run("fails", json!(1)).await, server.run("fails", json!(2)).await];
    let browser = Browser::of(&server);
    let fields = [("which", "all"), ("filter", "status=failed")];
    let sent = browser.send("/ui/jobs", "/ui/jobs/bulk/purge", &fields).await;
    assert!(browser.follow(&sent).await.contains("Purged 2 jobs."));
    for job in &failed {
        let gone = server.get(&format!("/v1/jobs/{}", id_of(job))).send().await;
        assert_eq!(gone.status, StatusCode::GONE);
    }
    let entry = server.get("/v1/audit").send().await.json()["entries"][0].clone();
    assert_eq!(
        (&entry["action"], &entry["detail"]),
        (&json!("jobs.purge"), &json!(r#"{"status":["failed"]}"#))
    );
}

#[tokio::test]
async fn only_administrators_view_other_tenants_jobs() {
    let (server, admin) = TestServer::with_keys().await;
    let acme = json!({"id": "acme", "name": "Acme"});
    server.post("/v1/tenants").key(&admin).json(acme).send().await;
    let theirs = key(&server, &admin, "acme", &["submit", "read"]).await;
    let id = run(&server, &theirs, "fails", json!(1)).await;
    let operator = Browser::signed_in(&server, &admin).await;
    assert!(!operator.page("/ui/jobs").await.contains(&id), "its own tenant's, unless it asks");
    let list = operator.page("/ui/jobs?tenant=acme").await;
    assert!(list.contains(&format!("/ui/jobs/{id}?tenant=acme")), "{list}");
    let page = operator.page(&format!("/ui/jobs/{id}?tenant=acme")).await;
    assert!(page.contains("Viewing tenant"), "{page}");
    let of = format!("/ui/jobs/{id}?tenant=acme");
    let sent = operator.send(&of, &format!("/ui/jobs/{id}/resume?tenant=acme"), &[]).await;
    assert_eq!(
        sent.header("location"),
        Some(format!("/ui/jobs/{id}?did=resume&tenant=acme").as_str())
    );
    let entry =
        server.get("/v1/audit?tenant=acme").key(&admin).send().await.json()["entries"][0].clone();
    assert_eq!((&entry["action"], &entry["tenant"]), (&json!("job.resume"), &json!("acme")));

    let reader = Browser::with_scopes(&server, &admin, &["submit", "read"]).await;
    assert_eq!(reader.get("/ui/jobs?tenant=acme").await.status, StatusCode::FORBIDDEN);
    for path in
        [format!("/ui/jobs/{id}"), format!("/ui/jobs/{id}/input"), format!("/ui/jobs/{id}/events")]
    {
        let foreign = reader.get(&path).await;
        let unknown = reader.get(&path.replace(&id, "01ARZ3NDEKTSV4RRFFQ69G5FAV")).await;
        assert_eq!(
            (foreign.status, unknown.status),
            (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND)
        );
    }
    for what in ["cancel", "resume", "fork", "purge"] {
        let sent = reader.send("/ui/jobs", &format!("/ui/jobs/{id}/{what}"), &[]).await;
        assert_eq!(sent.status, StatusCode::NOT_FOUND, "{what}");
    }
    assert_eq!(operator.get("/ui/jobs?tenant=nobody").await.status, StatusCode::NOT_FOUND);
}
