//! Proxied paths of the real binary: killed while the target works, and as the documentation has it.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};

use super::readme::{Prints, examples, repository, run};
use crate::harness::Installation;
use crate::harness::TestDatabase;
use crate::harness::raw_http;
use crate::harness::{FakeHttpServer, Reply};

fn config(target: &FakeHttpServer) -> String {
    format!(
        "[kinds.report]\nhttp = {{ url = \"http://{}/report\" }}\n\
         [[proxy]]\npath = \"/reports\"\nkind = \"report\"\npass = [\"authorization\"]\n",
        target.address
    )
}

async fn killed_while_the_target_works(install: Installation, target: &FakeHttpServer) {
    let server = install.start().await;
    let fields = [("idempotency-key", "k-1"), ("authorization", "Bearer canary-of-a-client")];
    let body = r#"{"canary": "of a body"}"#;
    let call = "POST /reports/7?x=1";
    let accepted = raw_http::send(install.address(), call, &fields, body).await.unwrap();
    assert_eq!(accepted.status, 202, "{accepted:?}");
    target.first(1).await;
    server.kill9().await;

    let _server = install.start_after_kill().await;
    let call = "POST /reports/7?x=1&mode=sync";
    let response = raw_http::send(install.address(), call, &fields, body).await.unwrap();
    assert_eq!((response.status, response.body.as_str()), (200, "here it is"), "{response:?}");
    let id = accepted.json()["jobId"].as_str().unwrap().to_owned();
    assert!(response.head.contains(&format!("longhaul-job-id: {id}")), "{response:?}");
    let got = target.all();
    assert_eq!(got.len(), 2, "once before the kill and once after it");
    for (got, attempt) in got.iter().zip(["1", "2"]) {
        assert!(got.head.starts_with("POST /report/7?x=1 "), "{}", got.head);
        assert_eq!((got.body.as_slice(), got.header("idempotency-key")), (body.as_bytes(), "k-1"));
        assert_eq!(got.header("authorization"), "Bearer canary-of-a-client");
        assert_eq!(got.header("longhaul-attempt"), attempt);
    }
}

/// Never responds to the first request, and responds to all others.
async fn slow_at_first() -> FakeHttpServer {
    FakeHttpServer::start(|number, _| match number {
        0 => Reply::Hang,
        _ => Reply::Answer(200, "", "here it is"),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn proxied_request_survives_a_kill_on_sqlite() {
    let target = slow_at_first().await;
    killed_while_the_target_works(Installation::with(&config(&target)), &target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proxied_request_survives_a_kill_on_postgres() {
    let (target, database) = (slow_at_first().await, TestDatabase::create().await);
    let lease = "[lease]\nduration = \"1500ms\"\nrenew = \"400ms\"\nsweep = \"200ms\"\n";
    let config = format!("database = {:?}\n{}{lease}", database.url(), config(&target));
    killed_while_the_target_works(Installation::with(&config), &target).await;
}

/// Blocks such as ```` ```python slow.py ````: what they are called and what is in them.
fn files(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut inside) {
            (Some(_), Some(_)) => found.extend(inside.take()),
            (Some(info), None) => {
                let name = info.split_once(' ').map_or("", |(_, name)| name);
                inside = Some((name.to_owned(), String::new()));
            }
            (None, Some((_, content))) => {
                content.push_str(line);
                content.push('\n');
            }
            (None, None) => {}
        }
    }
    found.retain(|(name, _)| name.contains('.'));
    found
}

#[tokio::test]
async fn proxy_docs_examples_print_what_they_show() {
    let text = std::fs::read_to_string(repository().join("docs/proxy.md")).unwrap();
    let install = Installation::new();
    // An address of this test's own, so that the port is free.
    let text = text.replace("127.0.0.1:9000", &format!("{}:9000", install.address().ip()));
    let text =
        text.replace("(\"127.0.0.1\", 9000)", &format!("(\"{}\", 9000)", install.address().ip()));
    let files = files(&text);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["slow.py", "longhaul.toml"]);
    for (name, content) in &files {
        std::fs::write(install.path().join(name), content).unwrap();
    }
    let lines = files[1].1.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 8, "eight lines are what is promised: {lines}");
    // Tells when it listens, which the walk-through's reader sees by trying.
    let listening = "import http.server, slow_start\n";
    std::fs::write(install.path().join("slow_start.py"), TELLS).unwrap();
    std::fs::write(
        install.path().join("started.py"),
        format!("{listening}exec(open('slow.py').read())\n"),
    )
    .unwrap();
    let mut python = install.command("python3");
    python.args(["-u", "started.py"]).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    let mut told = BufReader::new(python.stdout.take().unwrap()).lines();
    assert_eq!(told.next_line().await.unwrap().as_deref(), Some("listening"));

    let _server = install.start().await;
    for example in examples(&text) {
        let Prints { as_expected, shown } = run(&install, "docs/proxy.md", &example).await;
        assert!(as_expected, "{shown}");
    }
}

/// Prints a line as soon as a server of Python's own listens.
const TELLS: &str = "\
import socketserver
activate = socketserver.TCPServer.server_activate
def told(self):
    activate(self)
    print('listening')
socketserver.TCPServer.server_activate = told
";
