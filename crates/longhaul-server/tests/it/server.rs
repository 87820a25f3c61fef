//! A whole server, from its configuration to its stop.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use longhaul_client::wire::{Status, SubmitRequest};
use longhaul_client::{Client, SubmitOptions};
use longhaul_server::config::{Config, Flags, Role, Sources};
use longhaul_server::server::{Server, StartError, StopReason};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::raw_http;

fn config(folder: &Path) -> Config {
    let flags = Flags {
        listen: Some("127.0.0.1:0".to_owned()),
        data: Some(folder.join("data").to_string_lossy().into_owned()),
        ..Flags::default()
    };
    let sources = Sources {
        folder: folder.to_owned(),
        flags,
        replica: "test".to_owned(),
        ..Sources::default()
    };
    Config::load(&sources).unwrap().0
}

fn waiting() -> SubmitOptions {
    SubmitOptions { wait: Some(Duration::from_secs(30)), ..SubmitOptions::default() }
}

/// Runs a server for as long as `visit` takes.
async fn with_server<T>(config: &Config, visit: impl AsyncFnOnce(Client) -> T) -> T {
    let server = Server::start(config).await.unwrap();
    let client = Client::new(&format!("http://{}", server.address().unwrap()), None).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(stop.clone()));
    let seen = visit(client).await;
    stop.cancel();
    assert_eq!(running.await.unwrap(), StopReason::Stopped);
    seen
}

#[tokio::test]
async fn jobs_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let submit = async |client: Client| {
        let request = SubmitRequest::new("demo", &json!({"result": 7})).unwrap();
        client.submit(&request, &waiting()).await.unwrap()
    };
    let job = with_server(&config, submit).await;
    assert_eq!(job.status, Status::Completed);
    let again =
        with_server(&config, async |client: Client| client.job(&job.job_id, None).await.unwrap());
    assert_eq!(again.await, job);
}

#[tokio::test]
async fn data_directory_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    with_server(&config, async |_| ()).await;
    let mode = std::fs::metadata(&config.data).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn second_server_on_the_same_data_fails_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let refused = with_server(&config, async |_| Server::start(&config).await.unwrap_err()).await;
    assert!(matches!(refused, StartError::Engine(_)), "{refused}");
    assert!(refused.to_string().contains("another process has the database open"), "{refused}");
}

#[tokio::test]
async fn used_port_is_reported_before_data_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config { listen: taken.local_addr().unwrap(), ..config(folder.path()) };
    let refused = Server::start(&config).await.unwrap_err();
    assert!(matches!(refused, StartError::Listen { .. }), "{refused}");
    assert!(!config.data.exists());
}

#[tokio::test]
async fn configured_kinds_run_their_programs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("longhaul.toml"),
        "[kinds.shout]\ncommand = [\"sh\", \"-c\", \"cat >/dev/null; echo 42\"]\nconcurrency = 2\n",
    )
    .unwrap();
    let config = config(folder.path());
    let job = with_server(&config, async |client: Client| {
        let kinds = client.kinds().await.unwrap();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["demo", "render", "shout"]);
        let request = SubmitRequest::new("shout", &json!({})).unwrap();
        client.submit(&request, &waiting()).await.unwrap()
    });
    let job = job.await;
    assert_eq!(job.result.unwrap().as_str(), "42", "{:?}", job.error);
}

/// A split role has a store that others share; what it does is the same on any.
#[tokio::test]
async fn worker_runs_accepted_jobs_and_serves_only_health_and_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let api = Config { role: Role::Api, ..config.clone() };
    let job = with_server(&api, async |client: Client| {
        let request = SubmitRequest::new("demo", &json!({"result": 7})).unwrap();
        client.submit(&request, &SubmitOptions::default()).await.unwrap()
    });
    let job = job.await;
    assert_eq!(job.status, Status::Pending);

    let metrics_listen = Some("127.0.0.1:0".parse().unwrap());
    let worker = Config { role: Role::Worker, metrics_listen, ..config.clone() };
    let server = Server::start(&worker).await.unwrap();
    assert_eq!(server.address(), None);
    let address = server.metrics_address().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(stop.clone()));
    let ask = async |call: &str| raw_http::send(address, call, &[], "").await.unwrap();
    let done = r#"longhaul_attempts_ended_total{kind="demo",status="completed"} 1"#;
    while !ask("GET /metrics").await.body.contains(done) {}
    for (call, status) in [
        ("GET /livez", 200),
        ("GET /readyz", 200),
        ("GET /v1/jobs", 404),
        ("POST /v1/jobs", 404),
        ("GET /", 404),
    ] {
        assert_eq!(ask(call).await.status, status, "{call}");
    }
    stop.cancel();
    assert_eq!(running.await.unwrap(), StopReason::Stopped);

    let read = async |client: Client| client.job(&job.job_id, None).await.unwrap();
    assert_eq!(with_server(&api, read).await.status, Status::Completed);
}

#[tokio::test]
async fn worker_does_not_listen_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let worker = Config { role: Role::Worker, listen, ..config(folder.path()) };
    let server = Server::start(&worker).await.unwrap();
    assert_eq!((server.address(), server.metrics_address()), (None, None));
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(server.run(stop).await, StopReason::Stopped);
}

#[tokio::test]
async fn api_role_runs_no_jobs_and_reports_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[kinds.shout]\ncommand = [\"/no/such/program\"]\nqueue = \"loud\"\n";
    std::fs::write(folder.path().join("longhaul.toml"), file).unwrap();
    let config = Config { role: Role::Api, ..config(folder.path()) };
    with_server(&config, async |client: Client| {
        let replicas = client.replicas().await.unwrap();
        assert_eq!((replicas[0].role.as_str(), replicas[0].concurrency), ("api", 0));
        assert_eq!(replicas[0].kinds, ["demo", "render", "shout"]);
        let request = SubmitRequest::new("shout", &json!(1)).unwrap();
        let job = client.submit(&request, &SubmitOptions::default()).await.unwrap();
        assert_eq!((job.status, job.queue.as_str()), (Status::Pending, "loud"));
    })
    .await;
}
