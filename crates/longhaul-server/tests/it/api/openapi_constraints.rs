//! Constraints in the `OpenAPI` document equal those of the parsers.

use longhaul::job::{EventFilter, EventType, Limits, Name};
use longhaul_client::DurationText;
use longhaul_server::webhooks::signature::SigningSecret;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::harness::TestServer;

fn document() -> Value {
    serde_json::to_value(longhaul_server::api::openapi_document()).unwrap()
}

/// Returns the schema of a field in a body.
fn field(document: &Value, schema: &str, field: &str) -> Value {
    document["components"]["schemas"][schema]["properties"][field].clone()
}

/// Returns the schema of a parameter.
fn parameter(document: &Value, path: &str, method: &str, name: &str) -> Value {
    let parameters = document["paths"][path][method]["parameters"].as_array().unwrap();
    let found = parameters.iter().find(|parameter| parameter["name"] == name);
    found.unwrap_or_else(|| panic!("{name} of {method} {path}"))["schema"].clone()
}

fn pattern(schema: &Value) -> String {
    let pattern = schema["pattern"].as_str().unwrap_or_else(|| panic!("no pattern in {schema}"));
    let inner = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
    inner.unwrap_or_else(|| panic!("{pattern} is not anchored")).to_owned()
}

/// Asserts that the parser accepts every text that matches the pattern of the schema.
fn accepts_all(schema: &Value, accepts: impl Fn(&str) -> bool) {
    let texts = string_regex(&pattern(schema)).unwrap();
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).unwrap();
    let run = TestRunner::default().run(&texts, |text| {
        prop_assume!(text.chars().count() >= least);
        prop_assert!(accepts(&text), "{:?}", text);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{schema}: {error}"));
}

#[test]
fn names_in_the_document_have_one_pattern_and_it_is_that_of_the_engine() {
    let document = document();
    let names = [
        field(&document, "SubmitRequest", "kind"),
        field(&document, "SubmitRequest", "queue"),
        field(&document, "BatchJob", "kind"),
        field(&document, "BatchJob", "queue"),
        field(&document, "JobFilter", "kind"),
        field(&document, "JobFilter", "queue"),
        field(&document, "KeyRequest", "tenant"),
        field(&document, "TenantRequest", "id"),
        parameter(&document, "/v1/jobs", "get", "kind"),
        parameter(&document, "/v1/jobs", "get", "queue"),
        parameter(&document, "/v1/keys", "get", "tenant"),
        parameter(&document, "/v1/audit", "get", "tenant"),
        parameter(&document, "/v1/tenants", "get", "cursor"),
        parameter(&document, "/v1/queues/{name}/pause", "post", "name"),
        parameter(&document, "/v1/queues/{name}/resume", "post", "name"),
        parameter(&document, "/v1/kinds/{kind}/jobs", "post", "kind"),
    ];
    for name in &names {
        assert_eq!(pattern(name), pattern(&names[0]));
    }
    assert_eq!(pattern(&names[0]), "[A-Za-z0-9][A-Za-z0-9._-]{0,63}");
    accepts_all(&names[0], |text| Name::new(text).is_ok());
    for invalid in ["", "-a", ".a", "a b", "ä", &"a".repeat(65)] {
        assert!(Name::new(invalid).is_err(), "{invalid}");
    }
    assert!(Name::new("a".repeat(64)).is_ok());
}

#[test]
fn limits_of_submissions_in_the_document_are_those_of_the_engine() {
    let (document, limits) = (document(), Limits::default());
    for schema in ["SubmitRequest", "BatchJob"] {
        let priority = field(&document, schema, "priority");
        assert_eq!(priority["minimum"], -limits.priority_max);
        assert_eq!(priority["maximum"], limits.priority_max);
        let attempts = field(&document, schema, "maxAttempts");
        assert_eq!(
            (&attempts["minimum"], &attempts["maximum"]),
            (&json!(1), &json!(limits.max_attempts_max))
        );
        let labels = field(&document, schema, "labels");
        assert_eq!(labels["maxProperties"], limits.labels_max);
        for text in [&labels["propertyNames"], &labels["additionalProperties"]] {
            assert_eq!(text["maxLength"], limits.label_chars_max);
        }
        assert_eq!(labels["propertyNames"]["minLength"], 1);
    }
    let key = field(&document, "BatchJob", "idempotencyKey");
    assert_eq!(pattern(&key), format!("[!-~]{{1,{}}}", limits.idempotency_key_chars_max));
}

#[test]
fn events_in_the_document_are_those_of_the_engine() {
    let document = document();
    let known =
        |test| EventType::ALL.into_iter().filter(move |event| test || *event != EventType::Test);
    for schema in ["WebhookRequest", "EndpointRequest", "EndpointPatch"] {
        let events = &field(&document, schema, "events")["items"]["enum"];
        let expected: Vec<&str> = known(false).map(EventType::as_str).collect();
        assert_eq!(*events, json!(expected));
        EventFilter::new(expected).unwrap();
    }
    let filter = field(&document, "DeliveryFilter", "type");
    let expected: Vec<Option<&str>> =
        known(true).map(|event| Some(event.as_str())).chain([None]).collect();
    assert_eq!(filter["enum"], json!(expected));
    let event = parameter(&document, "/v1/deliveries", "get", "type");
    accepts_all(&event, |text| text.parse::<EventType>().is_ok());
}

#[test]
fn texts_that_match_the_document_are_parsed() {
    let document = document();
    let duration = document["components"]["schemas"]["DurationText"].clone();
    accepts_all(&duration, |text| match text.parse::<DurationText>() {
        Ok(_) => true,
        Err(error) => error.to_string().contains("it is too long"),
    });
    assert!("".parse::<DurationText>().is_err() && duration["minLength"] == 2);
    let secret = field(&document, "WebhookRequest", "secret");
    accepts_all(&secret, |text| text.parse::<SigningSecret>().is_ok());
    let cursor = parameter(&document, "/v1/deliveries", "get", "cursor");
    accepts_all(&cursor, |text| text.parse::<longhaul::JobId>().is_ok());
}

#[tokio::test]
async fn keys_cursors_and_labels_that_match_the_document_are_accepted() {
    let (document, server) = (document(), TestServer::start().await);
    let mut runner = TestRunner::deterministic();
    let mut texts = |schema: &Value| -> Vec<String> {
        let texts = string_regex(&pattern(schema)).unwrap();
        (0..30).map(|_| texts.new_tree(&mut runner).unwrap().current()).collect()
    };
    for key in texts(&parameter(&document, "/v1/jobs", "post", "Idempotency-Key")) {
        let body = json!({"kind": "echo", "input": 1});
        let submitted =
            server.post("/v1/jobs").header("idempotency-key", &key).json(body).send().await;
        assert!(submitted.status.is_success(), "{key:?}: {submitted:?}");
    }
    for cursor in texts(&parameter(&document, "/v1/jobs", "get", "cursor")) {
        let listed = server.get(&format!("/v1/jobs?cursor={cursor}")).send().await;
        assert!(listed.status.is_success(), "{cursor:?}: {listed:?}");
    }
    for name in texts(&field(&document, "TenantRequest", "name")) {
        let name: String = name.chars().take(200).collect();
        let changed = server
            .request(axum::http::Method::PATCH, "/v1/tenants/default")
            .json(json!({"name": name}))
            .send()
            .await;
        assert!(matches!(changed.status.as_u16(), 200 | 404), "{name:?}: {changed:?}");
        let body = json!({"kind": "echo", "input": 1, "labels": {"name": name}});
        let submitted = server.post("/v1/jobs").json(body).send().await;
        assert!(submitted.status.is_success(), "{name:?}: {submitted:?}");
    }
}
