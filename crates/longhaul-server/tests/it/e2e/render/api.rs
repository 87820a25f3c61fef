//! `POST /render` and `GET /jobs/{id}`: what clients of a renderer of their own expect.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::e2e::submit::end;
use crate::harness::Cluster;
use crate::harness::raw_http::{self, RawResponse};
use crate::harness::{Installation, TestProcess};

/// A flowchart with this label.
pub(super) fn flow(label: &str) -> Value {
    json!({"source": format!("flowchart LR\n  A[{label}] --> B\n"), "format": "mermaid", "outputType": "svg"})
}

pub(super) async fn ask(install: &Installation, call: &str, body: &Value) -> RawResponse {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    raw_http::send(install.address(), call, &[], &body).await.unwrap()
}

pub(super) async fn get(install: &Installation, path: &str) -> RawResponse {
    ask(install, &format!("GET {path}"), &Value::Null).await
}

/// Renders a diagram, waits for it and returns its link.
pub(super) async fn drawn(install: &Installation, request: &Value) -> String {
    let response = ask(install, "POST /render?mode=sync", request).await;
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["url"].as_str().unwrap().to_owned()
}

/// The queue does not move until it is resumed.
pub(super) async fn pause(install: &Installation) {
    assert_eq!(ask(install, "POST /v1/queues/render/pause", &Value::Null).await.status, 200);
}

pub(super) async fn resume(install: &Installation) {
    assert_eq!(ask(install, "POST /v1/queues/render/resume", &Value::Null).await.status, 200);
}

#[tokio::test]
async fn render_request_returns_a_job_with_the_image_url() {
    let install = Installation::new();
    let _server = install.start().await;
    pause(&install).await;
    let accepted = ask(&install, "POST /render", &flow("Begin")).await;
    assert_eq!(accepted.status, 202);
    let id = accepted.json()["jobId"].as_str().unwrap().to_owned();
    let url = format!("/jobs/{id}");
    assert_eq!(accepted.json(), json!({"jobId": id, "status": "pending", "statusUrl": url}));
    for field in ["retry-after: 1", &format!("location: {url}")] {
        assert!(accepted.head.contains(field), "{accepted:?}");
    }
    let waiting = get(&install, &url).await.json();
    assert_eq!((&waiting["status"], &waiting["jobId"]), (&json!("pending"), &json!(id)));
    assert!(waiting["createdAt"].is_string());
    for nothing in ["startedAt", "completedAt", "shortlink", "url", "error", "result"] {
        assert_eq!(waiting[nothing], Value::Null, "{nothing}");
    }

    resume(&install).await;
    end(&install.client(), &id).await;
    let shown = get(&install, &url).await.json();
    assert_eq!(shown["status"], "completed");
    assert!(shown["startedAt"].is_string() && shown["completedAt"].is_string());
    let link = json!({"shortlink": shown["shortlink"], "url": shown["url"]});
    assert_eq!((&shown["result"], &shown["error"]), (&link, &Value::Null));
    let picture = get(&install, shown["url"].as_str().unwrap()).await;
    assert_eq!(picture.status, 200);
    assert!(picture.body.contains("Begin"), "{picture:?}");
    assert_eq!(shown["url"], format!("/d/{}", shown["shortlink"].as_str().unwrap()));
}

#[tokio::test]
async fn running_render_job_has_the_state_rendering() {
    // Too large to finish within the test, so that the job stays running.
    let install = Installation::with("[render]\ntimeout = \"5m\"\n");
    let _server = install.start().await;
    let dense: Vec<_> = (0..3_000).map(|n| format!("a{n} -> b{}\n", n * 7 % 3_000)).collect();
    let request = json!({"source": dense.concat(), "format": "d2", "outputType": "svg"});
    let id = ask(&install, "POST /render", &request).await.json()["jobId"].clone();
    let path = format!("/jobs/{}", id.as_str().unwrap());
    let shown = loop {
        let shown = get(&install, &path).await.json();
        if shown["status"] != "pending" {
            break shown;
        }
    };
    assert_eq!(shown["status"], "rendering", "{shown}");
    assert!(shown["startedAt"].is_string() && shown["completedAt"].is_null(), "{shown}");

    // Cancelling releases the slot at once.
    let cancel = format!("POST /v1/jobs/{}/cancel", id.as_str().unwrap());
    assert_eq!(ask(&install, &cancel, &Value::Null).await.status, 202);
    end(&install.client(), id.as_str().unwrap()).await;
    let shown = get(&install, &path).await.json();
    assert_eq!(
        (&shown["status"], &shown["error"]),
        (&json!("failed"), &json!("the job was cancelled"))
    );
    drawn(&install, &flow("next")).await;
}

#[tokio::test]
async fn waiting_render_caller_gets_the_link_and_the_next_hits_the_cache() {
    let install = Installation::new();
    let _server = install.start().await;
    let first = ask(&install, "POST /render?mode=sync", &flow("Begin")).await;
    assert_eq!(first.status, 200, "{first:?}");
    let (link, url) = (first.json()["shortlink"].clone(), first.json()["url"].clone());
    assert_eq!(first.json(), json!({"shortlink": link, "url": url, "cached": false}));
    let cached = json!({"shortlink": link, "url": url, "cached": true});
    let mut spelled_out = flow("Begin");
    spelled_out["options"] = json!({"theme": "light", "background": null, "width": null});
    for (path, request) in
        [("/render", flow("Begin")), ("/render?mode=sync", flow("Begin")), ("/render", spelled_out)]
    {
        let again = ask(&install, &format!("POST {path}"), &request).await;
        assert_eq!((again.status, again.json()), (200, cached.clone()), "{path}");
    }
    let jobs = get(&install, "/v1/jobs?kind=render").await.json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "it was drawn once");

    for other in [
        json!({"source": flow("Begin")["source"], "format": "mermaid", "outputType": "png"}),
        json!({"source": flow("Begin")["source"], "format": "mermaid", "outputType": "svg", "options": {"theme": "dark"}}),
        flow("End"),
    ] {
        let response = ask(&install, "POST /render?mode=sync", &other).await.json();
        assert_eq!(response["cached"], false);
        assert_ne!(response["shortlink"], link);
    }
}

#[tokio::test]
async fn render_errors_are_returned_to_the_caller() {
    let install = Installation::new();
    let _server = install.start().await;
    let unknown = get(&install, "/jobs/01KA0000000000000000000000").await;
    assert_eq!((unknown.status, unknown.json()), (404, json!({"error": "Job not found"})));
    assert_eq!(get(&install, "/jobs/job_abc123").await.json(), json!({"error": "Job not found"}));

    let wrong = json!({"source": "a -> b\nc -> \n", "format": "d2", "outputType": "svg"});
    let failed = ask(&install, "POST /render?mode=sync", &wrong).await;
    assert_eq!(failed.status, 422, "{failed:?}");
    let said = failed.json();
    assert_eq!(said["code"], "syntax");
    assert!(said["error"].as_str().unwrap().starts_with("line 2, column "), "{said}");
    let shown = get(&install, &format!("/jobs/{}", said["jobId"].as_str().unwrap())).await.json();
    assert_eq!((&shown["status"], &shown["error"]), (&json!("failed"), &said["error"]));
    // The same source is as wrong as before, and is not drawn again.
    let again = ask(&install, "POST /render", &wrong).await;
    assert_eq!((again.status, &again.json()["status"]), (202, &json!("failed")));
    assert_eq!(again.json()["jobId"], said["jobId"]);

    let large = json!({"source": "x".repeat(256 * 1024 + 1), "format": "d2", "outputType": "svg"});
    for (request, status, field) in [
        (json!({"format": "mermaid"}), 400, "`source`"),
        (json!({"source": 5, "format": "mermaid"}), 400, "source: "),
        (json!({"source": "pie"}), 400, "`format`"),
        (json!({"source": "pie", "format": "plantuml"}), 400, "format: "),
        (json!({"source": "pie", "format": "mermaid", "outputType": "gif"}), 400, "outputType: "),
        (json!({"source": "pie", "format": "mermaid", "options": {"scale": 2}}), 400, "scale"),
        (
            json!({"source": "pie", "format": "mermaid", "options": {"scale": "2"}}),
            400,
            "options.scale: ",
        ),
        (json!(["pie", "mermaid"]), 400, "object"),
        (large, 413, "bytes"),
    ] {
        let refused = ask(&install, "POST /render", &request).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.json()["error"].as_str().unwrap().contains(field), "{field}: {refused:?}");
    }
    assert_eq!(ask(&install, "POST /render?mode=later", &flow("x")).await.status, 400);
}

#[tokio::test]
async fn render_api_accepts_what_clients_of_other_services_send() {
    let config =
        "[auth]\nrequire_keys = true\n[render]\nbase_url = \"https://diagrams.example/\"\n";
    let install = Installation::with(config);
    let mut command = install.serve();
    command.arg("--json");
    let mut server = TestProcess::spawn(command);
    let ready: Value = serde_json::from_str(&server.line().await.unwrap()).unwrap();
    let admin = ready["adminKey"].as_str().unwrap().to_owned();
    let address =
        ready["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/');
    let address: SocketAddr = address.parse().unwrap();
    let health = raw_http::send(address, "GET /health", &[], "").await.unwrap();
    assert_eq!((health.status, health.json()), (200, json!({"status": "ok"})));

    let basic = |password: &str| {
        format!("Basic {}", BASE64_STANDARD.encode(format!("anything:{password}")))
    };
    let body = r#"{"source": "flowchart LR\n A-->B", "format": "mermaid", "theme": "ignored"}"#;
    let post = async |authorization: String| {
        let headers = [("authorization", authorization.as_str()), ("content-type", "text/plain")];
        raw_http::send(address, "POST /render?mode=sync", &headers, body).await.unwrap()
    };
    assert_eq!(post(basic("wrong")).await.status, 401);
    let drawn = post(basic(&admin)).await;
    assert_eq!(drawn.status, 200, "{drawn:?}");
    let (url, link) = (drawn.json()["url"].clone(), drawn.json()["shortlink"].clone());
    assert_eq!(url, format!("https://diagrams.example/d/{}", link.as_str().unwrap()));
    let path = format!("GET /d/{}", link.as_str().unwrap());
    let headers = [("authorization", basic(&admin))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let image = raw_http::send(address, &path, &headers, "").await.unwrap();
    assert!(image.head.contains("image/svg+xml"), "{image:?}");
}

#[tokio::test]
async fn render_jobs_and_images_survive_a_restart() {
    let install = Installation::new();
    let server = install.start().await;
    let url = drawn(&install, &flow("before")).await;
    let picture = get(&install, &url).await.body;
    pause(&install).await;
    let accepted = ask(&install, "POST /render", &flow("waiting")).await.json();
    server.kill9().await;

    let _server = install.start_after_kill().await;
    assert_eq!(get(&install, &url).await.body, picture);
    assert_eq!(ask(&install, "POST /render", &flow("before")).await.json()["cached"], true);
    resume(&install).await;
    end(&install.client(), accepted["jobId"].as_str().unwrap()).await;
    let shown = get(&install, accepted["statusUrl"].as_str().unwrap()).await.json();
    assert_eq!(shown["status"], "completed", "{shown}");
}

/// One replica serves the API, another renders, on Postgres.
#[tokio::test]
async fn image_rendered_by_one_replica_is_served_by_another() {
    let cluster = Cluster::new("[queues.render]\npending_max = 2\n").await;
    let _api = cluster.api().await;
    let install = &cluster.install;
    let accepted = ask(install, "POST /render", &flow("far away")).await.json();
    assert_eq!(accepted["status"], "pending");
    assert_eq!(ask(install, "POST /render", &flow("second")).await.status, 202);
    assert_eq!(ask(install, "POST /render", &flow("third")).await.status, 429);
    let _worker = cluster.worker("one").await;
    end(&cluster.client(), accepted["jobId"].as_str().unwrap()).await;
    let shown = get(install, accepted["statusUrl"].as_str().unwrap()).await.json();
    assert_eq!(shown["status"], "completed", "{shown}");
    assert!(get(install, shown["url"].as_str().unwrap()).await.body.contains(">far away<"));
    assert_eq!(ask(install, "POST /render", &flow("far away")).await.json()["cached"], true);
}

#[tokio::test]
async fn render_api_without_the_kind_is_404() {
    let install =
        Installation::with("[render]\nenabled = false\n[kinds.render]\ncommand = [\"cat\"]\n");
    let _server = install.start().await;
    for call in ["POST /render", "GET /d/AAAA"] {
        let response = ask(&install, call, &Value::Null).await;
        assert_eq!(response.problem(), (404, "render-not-configured".to_owned()));
    }
}
