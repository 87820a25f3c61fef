//! Content, order, retries and records of deliveries.

use std::time::Duration;

use axum::http::Method;
use longhaul_server::webhooks::signature;
use serde_json::json;
use standardwebhooks::Webhook;

use super::webhook_server::{DELIVERIES_MAX, WebhookServer};
use crate::harness::{
    BROKEN, Backend, FakeHttpServer, OK, ReceivedRequest, Reply, on_both_backends,
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn verify(got: &ReceivedRequest, secret: &str) {
    Webhook::new(secret).unwrap().verify(&got.body, &got.headers()).unwrap();
}

async fn webhook_deliveries_arrive_in_order_and_signed(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::good().await;
    let webhook = json!({"url": receiver.url(), "secret": SECRET});
    let job = server.submit("phases", webhook).await;
    let got = receiver.first(5).await;
    let events: Vec<String> = got.iter().map(ReceivedRequest::event).collect();
    assert_eq!(events, ["job.pending", "job.running", "job.phase", "job.phase", "job.completed"]);
    for one in &got {
        assert!(one.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", one.head);
        assert_eq!(one.header("content-type"), "application/json");
        assert_eq!(one.header("host"), receiver.address.to_string());
        assert_eq!(one.json()["data"]["jobId"], job["jobId"]);
        verify(one, SECRET);
        assert!(
            Webhook::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
                .unwrap()
                .verify(&one.body, &one.headers())
                .is_err()
        );
    }
    let phases: Vec<_> = got.iter().map(|one| one.json()["data"]["phase"].clone()).collect();
    assert_eq!(phases[2..4], [json!("loading"), json!("drawing")]);
    // A result of 20,000 bytes is left out unless it is wanted.
    let last = got[4].json();
    assert_eq!(last["data"]["status"], "completed");
    assert_eq!(last["data"]["result"], json!(null));
    assert!(last["data"]["statusUrl"].is_string());
    let ids: std::collections::HashSet<_> =
        got.iter().map(|one| one.header("webhook-id")).collect();
    assert_eq!(ids.len(), 5);
}

async fn webhook_with_full_payload_contains_the_result(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::good().await;
    let webhook = json!({"url": receiver.url(), "events": ["job.completed"], "payload": "full"});
    server.submit("phases", webhook).await;
    let got = receiver.first(1).await.remove(0);
    assert_eq!(got.json()["data"]["result"].as_str().unwrap().len(), 20_000);
    verify(&got, &server.tenant_secret());
}

async fn failed_delivery_is_retried_with_the_same_message_id(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::start(|number, _| match number {
        0 => BROKEN,
        1 => Reply::Answer(302, "location: http://127.0.0.1:1/\r\n", ""),
        2 => Reply::Close,
        3 => Reply::Answer(503, "retry-after: 120\r\n", "later"),
        _ => OK,
    })
    .await;
    let job =
        server.submit("echo", json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let id = server.delivery_of(&job, "job.pending").await;
    let arrived = server.poll_delivery(&id, |delivery| delivery["status"] == "completed").await;
    let at = |place: usize| {
        let at = arrived["attempts"][place]["at"].as_str();
        longhaul::Timestamp::parse(at.unwrap_or_else(|| panic!("{arrived:#}"))).unwrap()
    };
    let waited = at(4).since(at(3));
    assert!(waited >= Duration::from_mins(2), "it asked for two minutes and got {waited:?}");
    let statuses: Vec<_> =
        arrived["attempts"].as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, [json!(500), json!(302), json!(null), json!(503), json!(200)]);
    assert_eq!(arrived["attempts"][0]["answer"], "out of cheese");
    assert_eq!(arrived["attempts"][4]["answer"], "thanks");
    assert!(arrived["attempts"][2]["error"].is_string());
    let got = receiver.all();
    assert!(got.iter().all(|one| one.header("webhook-id") == arrived["messageId"]));
    assert!(got.iter().all(|one| one.body == got[0].body));
    for one in &got {
        verify_at_its_time(one, &server.tenant_secret());
    }
}

/// Verifies a signature at the test's time, because the library uses the real clock.
fn verify_at_its_time(got: &ReceivedRequest, secret: &str) {
    let at = got.header("webhook-timestamp").parse::<i64>().unwrap();
    let (at, secret) = (longhaul::Timestamp::from_millis(at * 1_000), secret.parse().unwrap());
    signature::verify(&got.headers(), &got.body, &[secret], at).unwrap();
}

async fn failed_delivery_is_listed_and_resent(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let fixed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_fixed = std::sync::Arc::clone(&fixed);
    let receiver = FakeHttpServer::start(move |_, _| {
        if is_fixed.load(std::sync::atomic::Ordering::SeqCst) { OK } else { BROKEN }
    })
    .await;
    let endpoint =
        server.create_endpoint(json!({"url": receiver.url(), "events": ["job.failed"]})).await;
    let (_, job) = server.post("/v1/jobs").json(json!({"kind": "fails", "input": 1})).fetch().await;
    let id = server.delivery_of(&job, "job.failed").await;
    let began = server.clock.now();
    let dead = server.poll_delivery(&id, |delivery| delivery["status"] == "failed").await;
    let days = server.clock.now().since(began).as_secs_f64() / 86_400.0;
    assert!((2.0..4.0).contains(&days), "about three days, not {days}");
    assert_eq!((&dead["attempt"], &dead["maxAttempts"]), (&json!(10), &json!(10)));
    let letters = server.get_json("/v1/deliveries?status=failed").await;
    assert_eq!(letters["deliveries"][0]["deliveryId"], id.as_str());
    fixed.store(true, std::sync::atomic::Ordering::SeqCst);
    let filter = json!({"filter": {"endpointId": endpoint["id"], "type": "job.failed"}});
    let (status, resent) = server.post("/v1/deliveries/resend").json(filter).fetch().await;
    assert_eq!((status, &resent["count"]), (200, &json!(1)));
    let arrived = server.poll_delivery(&id, |delivery| delivery["status"] == "completed").await;
    assert_eq!(arrived["messageId"], dead["messageId"]);
    // One that has arrived is sent as another delivery of the same message.
    let (status, again) =
        server.post(&format!("/v1/deliveries/{id}/resend")).json(json!({})).fetch().await;
    assert_eq!(status, 202, "{again}");
    assert_ne!(again["deliveryId"], id.as_str());
    assert_eq!(again["messageId"], dead["messageId"]);
    let again = again["deliveryId"].as_str().unwrap().to_owned();
    server.poll_delivery(&again, |delivery| delivery["status"] == "completed").await;
}

/// The first delivery fails and is retried later; the following ones do not wait for it.
async fn failing_delivery_does_not_delay_later_ones(backend: Backend) {
    const UNFIT: Reply = Reply::Answer(400, "", "what is that?");
    let server = WebhookServer::start(backend).await;
    let receiver =
        FakeHttpServer::start(|_, got| if got.event() == "job.pending" { UNFIT } else { OK }).await;
    for _ in 0..5 {
        server.submit("echo", json!({"url": receiver.url()})).await;
    }
    let got = receiver.first(15).await;
    for job in got.iter().map(|one| one.json()["data"]["jobId"].clone()) {
        let of_job = got.iter().filter(|one| one.json()["data"]["jobId"] == job);
        let events: Vec<String> = of_job.map(ReceivedRequest::event).collect();
        assert_eq!(events, ["job.pending", "job.running", "job.completed"]);
    }
}

/// The circuit breaker of a failing endpoint opens; deliveries that it has not received stay in order.
async fn delivery_order_survives_an_endpoint_outage(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::start(|number, _| if number < 6 { BROKEN } else { OK }).await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(server.submit("echo", json!({"url": receiver.url()})).await);
    }
    for job in &jobs {
        for event in ["job.pending", "job.running", "job.completed"] {
            let id = server.delivery_of(job, event).await;
            server.poll_delivery(&id, |delivery| delivery["status"] == "completed").await;
        }
    }
    let got = receiver.all();
    for job in &jobs {
        let of_job = got.iter().filter(|one| one.json()["data"]["jobId"] == job["jobId"]);
        let mut seen: Vec<String> = Vec::new();
        for event in of_job.map(ReceivedRequest::event) {
            if !seen.contains(&event) {
                seen.push(event);
            }
        }
        assert_eq!(seen, ["job.pending", "job.running", "job.completed"]);
    }
}

/// More deliveries hang than one endpoint may have in flight, and other endpoints are not delayed.
async fn hanging_endpoints_do_not_delay_others(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let hanging = FakeHttpServer::start(|_, _| Reply::Hang).await;
    let dripping = FakeHttpServer::start(|_, _| Reply::Drip).await;
    let good = FakeHttpServer::good().await;
    for (receiver, jobs) in [(&hanging, 30), (&dripping, 30), (&good, 30)] {
        for _ in 0..jobs {
            let webhook = json!({"url": receiver.url(), "events": ["job.completed"]});
            server.submit("echo", webhook).await;
        }
    }
    hanging.first(2).await;
    let came = good.first(30).await;
    assert!(came.iter().all(|one| one.event() == "job.completed"));
    assert_eq!(hanging.all().len(), 2, "one that never answered has no more than two at once");
}

/// More endpoints hang than there are slots, and each has as many deliveries as the good one.
async fn hundred_hanging_endpoints_do_not_delay_others(backend: Backend) {
    let server = WebhookServer::with_timeout(backend, Duration::from_hours(9)).await;
    let (hanging, good) =
        (FakeHttpServer::start(|_, _| Reply::Hang).await, FakeHttpServer::good().await);
    let events = ["job.completed"];
    server.create_endpoint(json!({"url": good.url(), "events": events})).await;
    let submit =
        async || server.post("/v1/jobs").json(json!({"kind": "echo", "input": 1})).fetch().await;
    submit().await;
    good.first(1).await;
    let made =
        (0..99).map(|_| server.create_endpoint(json!({"url": hanging.url(), "events": events})));
    futures_util::future::join_all(made).await;
    for _ in 0..20 {
        submit().await;
    }
    good.first(21).await;
    hanging.first(DELIVERIES_MAX / 2).await;
    assert!(hanging.all().len() <= DELIVERIES_MAX * 3 / 4, "half, and what the last claim brought");
}

async fn delivery_to_a_silent_endpoint_times_out(backend: Backend) {
    let server = WebhookServer::with_timeout(backend, Duration::from_millis(200)).await;
    let receiver =
        FakeHttpServer::start(|number, _| if number == 0 { Reply::Hang } else { OK }).await;
    let job =
        server.submit("echo", json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let id = server.delivery_of(&job, "job.pending").await;
    let arrived = server.poll_delivery(&id, |delivery| delivery["status"] == "completed").await;
    assert_eq!(arrived["attempts"][0]["error"], "no response within the timeout");
    assert_eq!(arrived["attempts"][1]["status"], 200);
}

async fn gone_response_stops_a_job_webhook(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::start(|_, _| Reply::Answer(410, "", "")).await;
    let job = server.submit("echo", json!({"url": receiver.url()})).await;
    let last = server.delivery_of(&job, "job.completed").await;
    let last = server.poll_delivery(&last, |delivery| delivery["status"] == "failed").await;
    assert_eq!(receiver.all().len(), 1, "nothing more is sent");
    assert!(last["error"].as_str().unwrap().contains("410"), "{last}");
}

async fn gone_response_disables_an_endpoint(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::start(|_, _| Reply::Answer(410, "", "")).await;
    let endpoint =
        server.create_endpoint(json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let (_, job) = server.post("/v1/jobs").json(json!({"kind": "echo", "input": 1})).fetch().await;
    let id = server.delivery_of(&job, "job.pending").await;
    server.poll_delivery(&id, |delivery| delivery["status"] == "failed").await;
    let endpoint =
        server.get_json(&format!("/v1/endpoints/{}", endpoint["id"].as_str().unwrap())).await;
    assert_eq!(endpoint["enabled"], false);
    assert_eq!(endpoint["disabledReason"], "the endpoint responded 410 Gone");
    let audit = server.get_json("/v1/audit").await;
    assert!(audit["entries"].to_string().contains("endpoint.disable"), "{audit}");
}

/// A delivery has the job inside, so it is deleted with it.
async fn deleted_job_deletes_its_deliveries(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::good().await;
    let job = server.submit("echo", json!({"url": receiver.url()})).await;
    let mut ids = Vec::new();
    for event in ["job.pending", "job.running", "job.completed"] {
        let id = server.delivery_of(&job, event).await;
        server.poll_delivery(&id, |delivery| delivery["status"] == "completed").await;
        ids.push(id);
    }
    let path = format!("/v1/jobs/{}", job["jobId"].as_str().unwrap());
    let (status, _) = server.request(Method::DELETE, &path).fetch().await;
    assert_eq!(status, 204);
    for id in ids {
        let (status, problem) =
            server.request(Method::GET, &format!("/v1/deliveries/{id}")).fetch().await;
        assert_eq!((status, &problem["code"]), (404, &json!("delivery-not-found")));
    }
}

async fn forbidden_webhook_url_is_rejected_at_submission(backend: Backend) {
    let server = WebhookServer::without_loopback(backend).await;
    for url in [
        "http://127.0.0.1:9/hook",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://localhost/",
        "ftp://example.com/",
        "http://user:pw@example.com/",
        "not a url",
    ] {
        let body = json!({"kind": "echo", "input": 1, "webhook": {"url": url}});
        let (status, problem) = server.post("/v1/jobs").json(body).fetch().await;
        assert_eq!((status, &problem["code"]), (422, &json!("url-refused")), "{url}: {problem}");
        let (status, problem) =
            server.post("/v1/endpoints").json(json!({"url": url})).fetch().await;
        assert_eq!((status, &problem["code"]), (422, &json!("url-refused")), "{url}: {problem}");
    }
    let jobs = server.get_json("/v1/jobs").await;
    assert_eq!(jobs["jobs"], json!([]), "a refusal leaves no job");
    let (status, responses) = server
        .post("/v1/jobs/batch")
        .json(json!({"jobs": [
            {"kind": "echo", "input": 1, "webhook": {"url": "http://10.0.0.1/"}},
            {"kind": "echo", "input": 2},
        ]}))
        .fetch()
        .await;
    assert_eq!(status, 200);
    assert_eq!(responses[0]["code"], "url-refused");
    assert!(responses[1]["jobId"].is_string());
}

async fn invalid_webhooks_are_rejected_with_a_reason(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    for (webhook, says) in [
        (json!({"url": "https://example.com", "secret": "abc"}), "whsec_"),
        (json!({"url": "https://example.com", "events": ["job.done"]}), "job.completed"),
        (json!({"url": "https://example.com", "event": []}), "event"),
        (json!({"events": []}), "url"),
    ] {
        let body = json!({"kind": "echo", "input": 1, "webhook": webhook});
        let (status, problem) = server.post("/v1/jobs").json(body).fetch().await;
        assert_eq!(status, 422, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
}

on_both_backends! {
    webhook_deliveries_arrive_in_order_and_signed,
    webhook_with_full_payload_contains_the_result,
    failed_delivery_is_retried_with_the_same_message_id,
    failed_delivery_is_listed_and_resent,
    failing_delivery_does_not_delay_later_ones,
    delivery_order_survives_an_endpoint_outage,
    hanging_endpoints_do_not_delay_others,
    hundred_hanging_endpoints_do_not_delay_others,
    delivery_to_a_silent_endpoint_times_out,
    gone_response_stops_a_job_webhook,
    gone_response_disables_an_endpoint,
    deleted_job_deletes_its_deliveries,
    forbidden_webhook_url_is_rejected_at_submission,
    invalid_webhooks_are_rejected_with_a_reason,
}
