//! Commands against a fake server: output, errors and exit codes.

mod payloads;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use clap::CommandFactory as _;
use clap::Parser as _;
use longhaul_client::wire::{
    DeliveryList, Job, JobList, JobSummary, Replica, ReplicaList, Usage, UsageBy, UsageRow,
    UsageTotal,
};

use super::testing::{
    CommandOutput, completed, failed, pending, run_against, run_without_server, running,
};
use super::{Cli, Exit};

type Route = (&'static str, StatusCode, &'static str, String);

/// A server with fixed responses that records its requests.
struct FakeServer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

type FakeServerState = (Arc<Vec<Route>>, Arc<Mutex<Vec<String>>>);

impl FakeServer {
    async fn start(routes: Vec<Route>) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let state: FakeServerState = (Arc::new(routes), Arc::clone(&requests));
        let app = Router::new().fallback(respond).with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, requests }
    }

    async fn run(&self, args: &[&str]) -> CommandOutput {
        run_against(&self.address, args).await
    }

    fn requests(&self) -> String {
        self.requests.lock().unwrap().join("\n")
    }
}

async fn respond(
    State((routes, requests)): State<FakeServerState>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call = format!("{method} {uri}");
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or("-");
    let body = String::from_utf8_lossy(&body);
    requests.lock().unwrap().push(format!("{call} key={key} {body}").trim_end().to_owned());
    match routes.iter().find(|(route, ..)| *route == call) {
        Some((_, status, content_type, body)) => {
            (*status, [(header::CONTENT_TYPE, *content_type)], body.clone()).into_response()
        }
        None => (StatusCode::IM_A_TEAPOT, call).into_response(),
    }
}

fn json(call: &'static str, value: &impl serde::Serialize) -> Route {
    (call, StatusCode::OK, "application/json", serde_json::to_string(value).unwrap())
}

fn refusal(call: &'static str, status: StatusCode, code: &str, detail: &str) -> Route {
    let body = serde_json::json!({
        "type": "about:blank", "title": "", "status": status.as_u16(), "detail": detail,
        "code": code, "requestId": "r1",
    });
    (call, status, "application/problem+json", body.to_string())
}

fn events(jobs: &[Job]) -> Route {
    let frame = |job: &Job| {
        format!(
            "event: job\nid: {}\ndata: {}\n\n",
            job.version,
            serde_json::to_string(job).unwrap()
        )
    };
    let body = jobs.iter().map(frame).collect();
    (EVENTS, StatusCode::OK, "text/event-stream", body)
}

const ID: &str = "01KA3V8J5T0000000000000000";
const SUBMIT: &str = "POST /v1/jobs";
const GET: &str = "GET /v1/jobs/01KA3V8J5T0000000000000000";
const EVENTS: &str = "GET /v1/jobs/01KA3V8J5T0000000000000000/events";

#[test]
fn cli_arguments_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn global_flags_are_accepted_before_and_after_the_command() {
    for args in
        [["longhaul", "--server", "http://h", "list"], ["longhaul", "list", "--server", "http://h"]]
    {
        let cli = Cli::try_parse_from(args).unwrap();
        assert_eq!(cli.global.server.as_deref(), Some("http://h"));
    }
}

#[test]
fn usage_errors_exit_with_2() {
    for args in [
        &["longhaul", "get"][..],
        &["longhaul", "submit", "demo", "--delay", "soon"],
        &["longhaul", "submit", "demo", "--delay", "1s", "--run-at", "2026-11-15T08:00:00Z"],
        &["longhaul", "list", "--status", "done"],
        &["longhaul", "usage", "--by", "week"],
        &["longhaul", "usage", "--from", "monday"],
        &["longhaul", "usage", "--csv", "--json"],
        &["longhaul", "submit", "demo", "--label", "x"],
    ] {
        let error = Cli::try_parse_from(args).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()), "{args:?}");
    }
}

#[tokio::test]
async fn unreachable_server_exits_with_3_and_a_hint() {
    let CommandOutput { exit, out, err } = run_without_server(&["kinds"]).await;
    assert_eq!((exit, out.as_str()), (Exit::Server, ""));
    insta::assert_snapshot!(err, @"
    error: cannot reach http://127.0.0.1:1: Connection refused
     hint: is `longhaul serve` running? Set another address with --server or LONGHAUL_SERVER
    ");
}

#[tokio::test]
async fn errors_are_json_with_the_json_flag() {
    let CommandOutput { exit, err, .. } = run_without_server(&["kinds", "--json"]).await;
    assert_eq!(exit, Exit::Server);
    insta::assert_snapshot!(err, @r#"{"error":{"code":"unreachable","message":"cannot reach http://127.0.0.1:1: Connection refused","hint":"is `longhaul serve` running? Set another address with --server or LONGHAUL_SERVER","problem":null}}"#);
}

#[tokio::test]
async fn submit_rejects_invalid_json_before_sending() {
    let CommandOutput { exit, err, .. } =
        run_without_server(&["submit", "demo", "{steps: 3}"]).await;
    assert_eq!(exit, Exit::Usage);
    insta::assert_snapshot!(err, @r#"
    error: the input is not valid JSON: key must be a string at line 1 column 2
      {steps: 3}
       ^
     hint: quote JSON for the shell, for example '{"steps": 3}'
    "#);
}

#[tokio::test]
async fn submit_prints_only_the_id_and_sends_the_options() {
    let server = FakeServer::start(vec![json(SUBMIT, &pending())]).await;
    let args = ["submit", "graph", r#"{"z":1,"a":2}"#, "--key", "k", "--label", "a=b"];
    let CommandOutput { exit, out, err } = server.run(&args).await;
    assert_eq!((exit, out.trim(), err.as_str()), (Exit::Done, ID, ""));
    insta::assert_snapshot!(server.requests(), @r#"POST /v1/jobs key=k {"kind":"graph","input":{"z":1,"a":2},"labels":{"a":"b"}}"#);
}

#[tokio::test]
async fn submit_generates_an_idempotency_key() {
    let server = FakeServer::start(vec![json(SUBMIT, &pending())]).await;
    server.run(&["submit", "graph"]).await;
    server.run(&["submit", "graph"]).await;
    let requests = server.requests();
    let keys: Vec<_> = requests.split("key=").skip(1).map(|rest| &rest[..26]).collect();
    assert_ne!(keys[0], keys[1], "{requests}");
}

#[tokio::test]
async fn submit_wait_prints_changes_and_the_result() {
    let changes = events(&[running(), completed()]);
    let server = FakeServer::start(vec![json(SUBMIT, &pending()), changes]).await;
    let CommandOutput { exit, out, err } = server.run(&["submit", "graph", "--wait"]).await;
    assert_eq!(exit, Exit::Done);
    insta::assert_snapshot!(out, @r#"
    {
      "nodes": 42,
      "languages": [
        "rust"
      ]
    }
    "#);
    insta::assert_snapshot!(err, @"
    08:00:09Z  ○ pending
    08:00:09Z  ● running    attempt 1/3  parsing  120/400  src/lib.rs
    ✓ graph 01KA3V8J5T0000000000000000 completed in 4.2s
    ");
}

#[tokio::test]
async fn submit_wait_exits_with_1_for_a_failed_job() {
    let server = FakeServer::start(vec![json(SUBMIT, &pending()), events(&[failed()])]).await;
    let CommandOutput { exit, out, err } = server.run(&["submit", "graph", "--wait"]).await;
    assert_eq!((exit.code(), out.as_str()), (1, ""));
    let err = err.replace(&server.address, "SERVER");
    insta::assert_snapshot!(err, @"
    08:00:09Z  ○ pending
    ✗ graph 01KA3V8J5T0000000000000000 failed in 4.2s · attempt 3 of 3
      the worker stopped renewing its lease (worker-lost)
      resume after its last finished step: longhaul resume 01KA3V8J5T0000000000000000 --server SERVER
    ");
}

#[tokio::test]
async fn submit_wait_json_prints_only_the_final_job() {
    let server =
        FakeServer::start(vec![json(SUBMIT, &pending()), events(&[running(), failed()])]).await;
    let CommandOutput { exit, out, err } =
        server.run(&["submit", "graph", "--wait", "--json"]).await;
    assert_eq!((exit, err.as_str()), (Exit::JobFailed, ""));
    assert_eq!(serde_json::from_str::<Job>(&out).unwrap(), failed());
}

#[tokio::test]
async fn watch_prints_a_line_for_each_change() {
    let server =
        FakeServer::start(vec![json(GET, &pending()), events(&[running(), failed()])]).await;
    let CommandOutput { exit, out, err } = server.run(&["watch", ID]).await;
    assert_eq!((exit, err.as_str()), (Exit::JobFailed, ""));
    insta::assert_snapshot!(out, @"
    08:00:09Z  ○ pending
    08:00:09Z  ● running    attempt 1/3  parsing  120/400  src/lib.rs
    08:00:09Z  ✗ failed     in 4.2s  the worker stopped renewing its lease
    ");

    let CommandOutput { out, .. } = server.run(&["watch", ID, "--json"]).await;
    let versions: Vec<_> =
        out.lines().map(|line| serde_json::from_str::<Job>(line).unwrap().version).collect();
    assert_eq!(versions, [1, 4, 7]);
}

#[tokio::test]
async fn result_prints_only_the_result() {
    let server = FakeServer::start(vec![json(GET, &completed())]).await;
    let CommandOutput { exit, out, err } = server.run(&["result", ID, "--json"]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert_eq!(out, "{\"nodes\":42,\"languages\":[\"rust\"]}\n");
}

#[tokio::test]
async fn result_of_a_running_job_suggests_to_wait() {
    let server = FakeServer::start(vec![json(GET, &running())]).await;
    let CommandOutput { exit, out, err } = server.run(&["result", ID]).await;
    assert_eq!((exit, out.as_str()), (Exit::Server, ""));
    insta::assert_snapshot!(err, @"
    error: job 01KA3V8J5T0000000000000000 is running, not finished yet
     hint: `longhaul result 01KA3V8J5T0000000000000000 --wait` waits for it
    ");
}

#[tokio::test]
async fn cancel_continues_after_a_rejected_job() {
    let cancelling = Job { phase: Some("cancelling".to_owned()), ..running() };
    let server = FakeServer::start(vec![
        refusal(
            "POST /v1/jobs/X/cancel",
            StatusCode::NOT_FOUND,
            "job-not-found",
            "There is no job X.",
        ),
        json("POST /v1/jobs/01KA3V8J5T0000000000000000/cancel", &cancelling),
    ])
    .await;
    let CommandOutput { exit, out, err } = server.run(&["cancel", "X", ID]).await;
    assert_eq!(exit, Exit::Server);
    insta::assert_snapshot!(out, @"01KA3V8J5T0000000000000000  ● running · cancelling");
    insta::assert_snapshot!(err, @"
    error: There is no job X. (404 job-not-found)
     hint: `longhaul list` lists all jobs
    ");
}

#[tokio::test]
async fn list_sends_its_filters() {
    let list = JobList { jobs: vec![JobSummary::from(running())], next_cursor: Some("c".into()) };
    let call = "GET /v1/jobs?status=running%2Cfailed&limit=1&label.team=search";
    let server = FakeServer::start(vec![json(call, &list)]).await;
    let args = ["list", "--status", "running,failed", "--label", "team=search", "--limit", "1"];
    let CommandOutput { exit, out, err } = server.run(&args).await;
    assert_eq!(exit, Exit::Done, "{err}");
    insta::assert_snapshot!(out, @"
    JOB                         KIND   STATUS               ATTEMPT  PROGRESS  AGE  LABELS
    01KA3V8J5T0000000000000000  graph  ● running · parsing  1/3      120/400    9s  env=prod team=search
    ");
    insta::assert_snapshot!(err, @"next page: --cursor c");
}

#[tokio::test]
async fn list_follows_short_and_empty_pages_until_its_limit() {
    let page = |jobs: usize, next: Option<&str>| JobList {
        jobs: vec![JobSummary::from(running()); jobs],
        next_cursor: next.map(str::to_owned),
    };
    let server = FakeServer::start(vec![
        json("GET /v1/jobs?kind=graph&limit=5", &page(0, Some("a"))),
        json("GET /v1/jobs?kind=graph&limit=5&cursor=a", &page(2, Some("b"))),
        json("GET /v1/jobs?kind=graph&limit=3&cursor=b", &page(0, Some("c"))),
        json("GET /v1/jobs?kind=graph&limit=3&cursor=c", &page(1, None)),
    ])
    .await;
    let args = ["list", "--kind", "graph", "--limit", "5", "--json"];
    let CommandOutput { exit, out, err } = server.run(&args).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert_eq!(serde_json::from_str::<JobList>(&out).unwrap(), page(3, None));
}

#[tokio::test]
async fn deliveries_skip_empty_pages() {
    let page = |next: Option<&str>| DeliveryList {
        deliveries: Vec::new(),
        next_cursor: next.map(str::to_owned),
    };
    let server = FakeServer::start(vec![
        json("GET /v1/deliveries?endpoint=e", &page(Some("a"))),
        json("GET /v1/deliveries?endpoint=e&cursor=a", &page(None)),
    ])
    .await;
    let args = ["deliveries", "list", "--endpoint", "e"];
    let CommandOutput { exit, err, .. } = server.run(&args).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, "no deliveries\n"));
}

#[tokio::test]
async fn replicas_are_listed_as_table_and_json() {
    let replica = Replica {
        name: "blue".to_owned(),
        role: "api".to_owned(),
        version: "0.1.0".to_owned(),
        host: Some("host-1".to_owned()),
        pid: Some(4711),
        kinds: vec!["demo".to_owned()],
        running: 0,
        concurrency: 0,
        started_at: "2026-11-15T08:00:00.000Z".into(),
        seen_at: "2026-11-15T08:00:05.000Z".into(),
        alive: true,
    };
    let list = ReplicaList { replicas: vec![replica] };
    let server = FakeServer::start(vec![json("GET /v1/replicas", &list)]).await;
    let CommandOutput { exit, out, err } = server.run(&["replicas"]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    insta::assert_snapshot!(out, @"
    REPLICA  ROLE  STATE  RUNNING  UP  SEEN  PROCESS      VERSION  KINDS
    blue     api   alive      0/0  9s    4s  host-1:4711  0.1.0    demo
    ");
    let CommandOutput { exit, out, .. } = server.run(&["replicas", "--json"]).await;
    assert_eq!(exit, Exit::Done);
    assert_eq!(serde_json::from_str::<ReplicaList>(&out).unwrap(), list);
}

#[tokio::test]
async fn completions_contain_every_command() {
    let CommandOutput { exit, out, .. } = run_without_server(&["completions", "bash"]).await;
    assert_eq!(exit, Exit::Done);
    for command in Cli::command().get_subcommands() {
        assert!(out.contains(command.get_name()), "{}", command.get_name());
    }
}

#[tokio::test]
async fn bench_without_jobs_is_a_usage_error() {
    for flag in ["--jobs", "--concurrency"] {
        let CommandOutput { exit, err, .. } =
            run_without_server(&["bench", "submit", flag, "0"]).await;
        assert_eq!((exit, err.contains("above zero")), (super::Exit::Usage, true), "{err}");
    }
}

/// A regression: `serve` waited forever for a handler that never yields.
#[test]
fn blocked_background_task_does_not_keep_the_process() {
    let (_held, forever) = std::sync::mpsc::channel::<()>();
    let ended = super::block_on(async move {
        tokio::spawn(async move { forever.recv() });
        tokio::task::spawn_blocking(std::thread::park);
        tokio::task::yield_now().await;
        Ok(7)
    });
    assert_eq!(ended.unwrap(), 7);
}

#[tokio::test]
async fn usage_is_printed_as_table_json_and_csv() {
    let total = UsageTotal {
        jobs: 2,
        run_seconds: 1.5,
        payload_bytes: 0,
        steps: 3,
        prompt_tokens: 5,
        completion_tokens: 8,
    };
    let row = UsageRow {
        start: "2026-11-15T08:00:00.000Z".into(),
        kind: "graph".to_owned(),
        key: None,
        jobs: 2,
        run_seconds: 1.5,
        payload_bytes: 0,
        steps: 3,
        prompt_tokens: 5,
        completion_tokens: 8,
    };
    let (from, to) = ("2026-11-01T00:00:00.000Z".into(), "2026-11-15T08:00:09.000Z".into());
    let usage = Usage { from, to, by: UsageBy::Hour, rows: vec![row], total };
    let none = Usage { rows: Vec::new(), ..usage.clone() };
    let csv = "GET /v1/usage?from=2026-11-01T00%3A00%3A00.000Z&by=month&format=csv";
    let fake = FakeServer::start(vec![
        json("GET /v1/usage?by=hour", &usage),
        json("GET /v1/usage?by=day", &none),
        (csv, StatusCode::OK, "text/csv", "start,kind\r\n".to_owned()),
    ])
    .await;
    let table = fake.run(&["usage", "--by", "hour"]).await;
    insta::assert_snapshot!(table.out, @"
    START              KIND   KEY  JOBS  RUN SECONDS  PAYLOAD BYTES  STEPS  TOKENS IN  TOKENS OUT
    2026-11-15T08:00Z  graph          2        1.500              0      3          5           8
    total                             2        1.500              0      3          5           8
    ");
    let printed: Usage =
        serde_json::from_str(&fake.run(&["usage", "--by", "hour", "--json"]).await.out).unwrap();
    assert_eq!(printed, usage);
    let empty = fake.run(&["usage"]).await;
    assert_eq!((empty.exit, &*empty.out), (Exit::Done, ""));
    insta::assert_snapshot!(empty.err, @"no job finished between 2026-11-01T00:00:00.000Z and 2026-11-15T08:00:09.000Z");
    let csv = fake.run(&["usage", "--from", "2026-11-01", "--by", "month", "--csv"]).await;
    assert_eq!((csv.exit, &*csv.out), (Exit::Done, "start,kind\r\n"));
}
