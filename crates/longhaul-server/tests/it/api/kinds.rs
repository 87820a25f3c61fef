use longhaul_kinds::command::{CommandKind, Program};
use serde_json::{Value, json};

use crate::harness::TestServer;

#[tokio::test]
async fn kinds_are_listed_by_name() {
    let server = TestServer::start().await;
    let kinds = server.get("/v1/kinds").send().await.json();
    insta::assert_json_snapshot!(kinds["kinds"][0], @r#"
    {
      "name": "echo",
      "queue": "default",
      "maxAttempts": 3,
      "timeout": "30m",
      "concurrency": null
    }
    "#);
    let names =
        kinds["kinds"].as_array().unwrap().iter().map(|kind| kind["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["echo", "fails", "gated", "steps"]);
}

#[tokio::test]
async fn tenants_see_no_paths_hosts_or_process_ids() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resize").display().to_string();
    let program = Program::Single { argv: vec![path] };
    // A file where the folder for working directories should be.
    let work_root = folder.path().join("work");
    std::fs::write(&work_root, "").unwrap();
    let broken = CommandKind::new("broken", program.clone(), work_root.join("x")).build().unwrap();
    let missing = CommandKind::new("missing", program, folder.path().join("jobs")).build().unwrap();
    let builder = TestServer::builder().require_keys();
    let builder = [broken, missing]
        .into_iter()
        .fold(builder, |builder, kind| builder.kind(kind.retry(longhaul::Retry::times(1))));
    let (server, admin) = builder.start_with_key().await;
    let wish = json!({"name": "x", "scopes": ["submit", "read"]});
    let made = server.post("/v1/keys").key(&admin).json(wish).send().await.json();
    let key = made["key"].as_str().unwrap();
    let mut texts = Vec::new();
    for kind in ["broken", "missing"] {
        let body = json!({"kind": kind, "input": 1});
        let job = server.post("/v1/jobs").key(key).json(body).send().await.json();
        let url = job["statusUrl"].as_str().unwrap();
        let failed = loop {
            let job: Value = server.get(url).key(key).send().await.json();
            if job["status"] == "failed" {
                break job;
            }
            tokio::task::yield_now().await;
        };
        texts.push(failed.to_string());
        texts.push(server.get(&format!("{url}/attempts")).key(key).send().await.text().to_owned());
    }
    for path in ["/v1/kinds", "/v1/replicas", "/v1/jobs", "/v1/queues", "/v1/jobs/x", "/healthz"] {
        texts.push(server.get(path).key(key).send().await.text().to_owned());
    }
    let (folder, host) = (folder.path().display().to_string(), rustix::system::uname());
    let host = host.nodename().to_str().unwrap();
    let pid = format!("\"pid\":{}", std::process::id());
    for text in texts {
        for hidden in [folder.as_str(), &format!("\"{host}\""), &pid] {
            assert!(!text.contains(hidden), "{hidden} is in {text}");
        }
    }
}
