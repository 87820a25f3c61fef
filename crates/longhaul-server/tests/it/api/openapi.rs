use serde_json::Value;

use crate::harness::TestServer;

fn document() -> Value {
    serde_json::to_value(longhaul_server::api::openapi_document()).unwrap()
}

fn operations(document: &Value) -> Vec<(String, &str, &Value)> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations.push((method.to_uppercase(), path.as_str(), operation));
        }
    }
    operations
}

#[test]
fn openapi_document_lists_every_route() {
    let document = document();
    let lines: Vec<String> = operations(&document)
        .iter()
        .map(|(method, path, operation)| {
            let statuses: Vec<&String> =
                operation["responses"].as_object().unwrap().keys().collect();
            let name = operation["operationId"].as_str().unwrap();
            format!("{name}: {method} {path} {statuses:?}").replace('"', "")
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    getHealth: GET /healthz [200, 500, 503]
    getLiveness: GET /livez [200]
    getMetrics: GET /metrics [200, 401, 402, 403, 429, 500, 503]
    getReadiness: GET /readyz [200, 500, 503]
    listAudit: GET /v1/audit [200, 400, 401, 402, 403, 422, 429, 500, 503]
    takeStripeEvent: POST /v1/billing/stripe [200, 400, 401, 404, 413, 415, 422, 500, 503]
    listDeliveries: GET /v1/deliveries [200, 400, 401, 402, 403, 422, 429, 500, 503]
    resendDeliveries: POST /v1/deliveries/resend [200, 400, 401, 402, 403, 413, 415, 422, 429, 500, 503]
    getDelivery: GET /v1/deliveries/{id} [200, 401, 402, 403, 404, 409, 429, 500, 503]
    resendDelivery: POST /v1/deliveries/{id}/resend [202, 401, 402, 403, 404, 409, 429, 500, 503]
    listEndpoints: GET /v1/endpoints [200, 400, 401, 402, 403, 422, 429, 500, 503]
    createEndpoint: POST /v1/endpoints [201, 400, 401, 402, 403, 404, 413, 415, 422, 429, 500, 503]
    getEndpoint: GET /v1/endpoints/{id} [200, 401, 402, 403, 404, 429, 500, 503]
    deleteEndpoint: DELETE /v1/endpoints/{id} [204, 401, 402, 403, 404, 429, 500, 503]
    changeEndpoint: PATCH /v1/endpoints/{id} [200, 400, 401, 402, 403, 404, 413, 415, 422, 429, 500, 503]
    rotateEndpointSecret: POST /v1/endpoints/{id}/rotate [200, 400, 401, 402, 403, 404, 413, 415, 422, 429, 500, 503]
    testEndpoint: POST /v1/endpoints/{id}/test [202, 401, 402, 403, 404, 429, 500, 503]
    listJobs: GET /v1/jobs [200, 400, 401, 402, 403, 422, 429, 500, 503]
    submitJob: POST /v1/jobs [200, 202, 400, 401, 402, 403, 409, 413, 415, 422, 429, 500, 503]
    submitBatch: POST /v1/jobs/batch [200, 400, 401, 402, 403, 413, 415, 422, 429, 500, 503]
    cancelJobs: POST /v1/jobs/cancel [200, 400, 401, 402, 403, 413, 415, 422, 429, 500, 503]
    purgeJobs: POST /v1/jobs/purge [200, 400, 401, 402, 403, 413, 415, 422, 429, 500, 503]
    resumeJobs: POST /v1/jobs/resume [200, 400, 401, 402, 403, 413, 415, 422, 429, 500, 503]
    getJob: GET /v1/jobs/{id} [200, 304, 400, 401, 402, 403, 404, 410, 429, 500, 503]
    purgeJob: DELETE /v1/jobs/{id} [204, 401, 402, 403, 404, 409, 410, 429, 500, 503]
    getArtifact: GET /v1/jobs/{id}/artifacts/{name} [200, 206, 304, 401, 402, 403, 404, 410, 416, 429, 500, 503]
    listJobAttempts: GET /v1/jobs/{id}/attempts [200, 401, 402, 403, 404, 410, 429, 500, 503]
    cancelJob: POST /v1/jobs/{id}/cancel [200, 202, 401, 402, 403, 404, 409, 410, 429, 500, 503]
    listJobDeliveries: GET /v1/jobs/{id}/deliveries [200, 400, 401, 402, 403, 404, 429, 500, 503]
    watchJob: GET /v1/jobs/{id}/events [200, 204, 400, 401, 402, 403, 404, 410, 429, 500, 503]
    forkJob: POST /v1/jobs/{id}/fork [200, 202, 400, 401, 402, 403, 404, 409, 410, 413, 415, 422, 429, 500, 503]
    getJobInput: GET /v1/jobs/{id}/input [200, 401, 402, 403, 404, 410, 429, 500, 503]
    getReceipt: GET /v1/jobs/{id}/receipt [200, 401, 402, 403, 404, 429, 500, 503]
    getJobResult: GET /v1/jobs/{id}/result [200, 401, 402, 403, 404, 409, 410, 429, 500, 503]
    resumeJob: POST /v1/jobs/{id}/resume [200, 202, 401, 402, 403, 404, 409, 410, 429, 500, 503]
    listJobSteps: GET /v1/jobs/{id}/steps [200, 401, 402, 403, 404, 410, 429, 500, 503]
    listKeys: GET /v1/keys [200, 400, 401, 402, 403, 422, 429, 500, 503]
    createKey: POST /v1/keys [201, 400, 401, 402, 403, 404, 413, 415, 422, 429, 500, 503]
    revokeKey: DELETE /v1/keys/{id} [204, 401, 402, 403, 404, 429, 500, 503]
    rotateKey: POST /v1/keys/{id}/rotate [201, 400, 401, 402, 403, 404, 413, 415, 422, 429, 500, 503]
    listKinds: GET /v1/kinds [200, 401, 402, 403, 429, 500, 503]
    submitInput: POST /v1/kinds/{kind}/jobs [200, 202, 400, 401, 402, 403, 409, 413, 415, 422, 429, 500, 503]
    listQueues: GET /v1/queues [200, 401, 402, 403, 429, 500, 503]
    pauseQueue: POST /v1/queues/{name}/pause [200, 400, 401, 402, 403, 429, 500, 503]
    resumeQueue: POST /v1/queues/{name}/resume [200, 400, 401, 402, 403, 429, 500, 503]
    listReplicas: GET /v1/replicas [200, 401, 402, 403, 429, 500, 503]
    listTenants: GET /v1/tenants [200, 400, 401, 402, 403, 422, 429, 500, 503]
    createTenant: POST /v1/tenants [201, 400, 401, 402, 403, 404, 409, 413, 415, 422, 429, 500, 503]
    getTenant: GET /v1/tenants/{id} [200, 401, 402, 403, 404, 429, 500, 503]
    changeTenant: PATCH /v1/tenants/{id} [200, 400, 401, 402, 403, 404, 409, 413, 415, 422, 429, 500, 503]
    getUsage: GET /v1/usage [200, 400, 401, 402, 403, 422, 429, 500, 503]
    getWebhookSecret: GET /v1/webhooks/secret [200, 401, 402, 403, 429, 500, 503]
    ");
}

#[tokio::test]
async fn served_openapi_document_is_the_published_one() {
    let server = TestServer::start().await;
    let response = server.get("/openapi.json").send().await;
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.json(), document());
    assert!(document()["openapi"].as_str().unwrap().starts_with("3.1."));
}

#[test]
fn openapi_references_resolve() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
}

#[test]
fn openapi_describes_every_operation() {
    let document = document();
    let mut names = std::collections::HashSet::new();
    for (method, path, operation) in operations(&document) {
        let at = format!("{method} {path}");
        assert!(names.insert(operation["operationId"].as_str().unwrap()), "{at}");
        assert!(operation["tags"][0].is_string() && operation["summary"].is_string(), "{at}");
        let declared: Vec<&str> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let templated: Vec<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        assert_eq!(declared, templated, "{at}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(response["headers"]["X-Request-Id"].is_object(), "{at} {status}");
            assert!(!response["description"].as_str().unwrap().is_empty(), "{at} {status}");
            if status.parse::<u16>().unwrap() >= 400 {
                let schema = &response["content"]["application/problem+json"]["schema"];
                assert_eq!(schema["$ref"], "#/components/schemas/Problem", "{at} {status}");
            }
        }
    }
}

#[tokio::test]
async fn every_openapi_operation_is_served() {
    let server = TestServer::start().await;
    let document = document();
    for (method, path, _) in operations(&document) {
        let path = path.replace("{id}", "x").replace("{kind}", "x").replace("{name}", "x");
        let response = server.request(method.parse().unwrap(), &path).send().await;
        assert_ne!(response.status.as_u16(), 405, "{method} {path}");
        if response.status.as_u16() == 404 {
            assert_ne!(response.problem().1, "not-found", "{method} {path}");
        }
    }
}

#[test]
fn openapi_result_schema_allows_any_json() {
    let document = document();
    let result = &document["components"]["schemas"]["Job"]["properties"]["result"];
    assert_eq!(result["$ref"], "#/components/schemas/RawJson", "{result}");
}
