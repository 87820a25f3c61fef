//! Lists of models.

use serde_json::{Value, json};

use super::chat_server::ChatServer;
use crate::harness::{Backend, FakeChatServer, MODEL, TestServer, on_both_backends};

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|model| model[key].as_str().unwrap().to_owned()).collect()
}

async fn models_of_all_targets_are_listed_in_both_apis(backend: Backend) {
    let (one, other) = (FakeChatServer::ollama().await, FakeChatServer::openai().await);
    let server = ChatServer::start(backend, &[&one, &other]).await;
    let tags = server.get("/api/tags").send().await.json();
    assert_eq!(names(&tags["models"], "name"), [MODEL.to_owned(), format!("{MODEL}:latest")]);
    assert_eq!(tags["models"][1]["details"]["family"], "birds", "as its target tells it");
    let models = server.get("/v1/models").key("sk-whatever").send().await.json();
    assert_eq!(models["object"], "list");
    assert_eq!(names(&models["data"], "id"), [MODEL.to_owned(), format!("{MODEL}:latest")]);
    let model = server.get(&format!("/v1/models/{MODEL}")).send().await.json();
    assert_eq!((&model["id"], &model["owned_by"]), (&json!(MODEL), &json!("me")));
    let unknown = server.get("/v1/models/some/owl").send().await;
    assert_eq!(
        (unknown.status.as_u16(), &unknown.json()["error"]["type"]),
        (404, &json!("not_found_error"))
    );
    let shown = server.post("/api/show").json(json!({"model": MODEL})).send().await.json();
    assert_eq!(shown["details"]["family"], "birds");
    assert_eq!(server.post("/api/show").json(json!({"model": "owl"})).send().await.status, 404);
    let version = server.get("/api/version").send().await.json();
    assert_eq!(version, json!({"version": "0.13.5"}), "of the target, because clients compare it");
    let running = server.get("/api/ps").send().await.json();
    assert_eq!(names(&running["models"], "name"), [format!("{MODEL}:latest")]);
}

async fn model_is_found_by_every_name_that_chats_accept(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    for name in [MODEL.to_owned(), format!("{MODEL}:latest")] {
        let model = server.get(&format!("/v1/models/{name}")).send().await;
        assert_eq!((model.status.as_u16(), &model.json()["id"]), (200, &json!(name)));
    }
    target.down().await;
    server.clock.advance(std::time::Duration::from_mins(5));
    assert_eq!(server.get("/api/ps").send().await.json(), json!({"models": []}));
    assert!(server.get("/api/version").send().await.json()["version"].is_string());
}

async fn models_of_an_unreachable_target_stay_listed(backend: Backend) {
    let (one, other) = (FakeChatServer::ollama().await, FakeChatServer::openai().await);
    let server = ChatServer::start(backend, &[&one, &other]).await;
    one.down().await;
    other.down().await;
    let nobody = server.get("/api/tags").send().await;
    assert_eq!(nobody.status, 502);
    assert!(nobody.json()["error"].as_str().unwrap().contains("is unreachable"));
    one.up().await;
    assert_eq!(server.get("/api/tags").send().await.json()["models"].as_array().unwrap().len(), 1);
    one.down().await;
    server.clock.advance(std::time::Duration::from_mins(5));
    assert_eq!(server.get("/api/tags").send().await.json()["models"].as_array().unwrap().len(), 1);
}

async fn unknown_routes_of_openai_have_errors_in_its_format(backend: Backend) {
    let target = FakeChatServer::openai().await;
    let server = ChatServer::start(backend, &[&target]).await;
    for path in [
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/files",
        "/v1/responses/resp_1",
        "/v1/chat/completions/chatcmpl-1",
        "/v1/moderations",
    ] {
        for request in [server.get(path), server.post(path).json(json!({"model": "m"}))] {
            let response = request.send().await;
            let error = &response.json()["error"];
            assert_eq!(response.status.as_u16(), 404, "{path}");
            assert_eq!(error["type"], "not_found_error", "{path}: {response:?}");
        }
    }
    // Other paths have the errors of Longhaul.
    assert_eq!(server.get("/v1/nothing").send().await.problem().0, 404);
}

async fn unknown_routes_of_ollama_have_errors_in_its_format(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    for (path, status) in [("/api/pull", 501), ("/api/delete", 501), ("/api/blobs/sha256:0", 404)] {
        let response = server.post(path).json(json!({"model": "m"})).send().await;
        assert_eq!(response.status.as_u16(), status, "{path}");
        assert!(response.json()["error"].is_string(), "{path}: {response:?}");
    }
    assert_eq!(server.get("/api/nothing").send().await.status.as_u16(), 404);
}

on_both_backends! {
    model_is_found_by_every_name_that_chats_accept,
    unknown_routes_of_openai_have_errors_in_its_format,
    unknown_routes_of_ollama_have_errors_in_its_format,
    models_of_all_targets_are_listed_in_both_apis,
    models_of_an_unreachable_target_stay_listed,
}

#[tokio::test]
async fn chat_without_targets_names_the_missing_setting() {
    let server = TestServer::start().await;
    for path in ["/jobs", "/api/chat", "/api/generate", "/v1/chat/completions"] {
        let response = server.post(path).json(json!({"model": "m", "messages": []})).send().await;
        assert_eq!(response.problem(), (404, "chat-not-configured".to_owned()));
        assert!(response.detail().contains("[chat] targets"));
    }
    for path in ["/api/tags", "/v1/models", "/api/version"] {
        assert_eq!(server.get(path).send().await.problem().1, "chat-not-configured");
    }
    let unknown = server.get("/jobs/01KA3V8J5T0000000000000000").send().await;
    assert_eq!((unknown.status.as_u16(), unknown.json()), (404, json!({"error": "Job not found"})));
}
