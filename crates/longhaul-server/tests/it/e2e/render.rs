//! Diagrams: as jobs of the real server, drawn by its children, and by `longhaul render` without one.

mod api;
mod docs;
mod links;
mod load;

use std::process::Output;

use longhaul_client::wire::{Job, Status};
use serde_json::{Value, json};

use super::submit::{end, submit};
use crate::harness::raw_http;
use crate::harness::{Installation, LONGHAUL, TestProcess};

const FLOW: &str = "flowchart LR\n  A[Begin] --> B[End]\n";

async fn draw(install: &Installation, input: Value) -> Job {
    let client = install.client();
    let job = submit(&client, "render", input).await;
    end(&client, &job.job_id).await
}

fn input(format: &str, source: &str) -> Value {
    json!({"source": source, "format": format, "outputType": "svg"})
}

async fn result(install: &Installation, job: &Job) -> Value {
    let path = format!("GET /v1/jobs/{}/result", job.job_id);
    raw_http::send(install.address(), &path, &[], "").await.unwrap().json()
}

fn failure(job: &Job) -> (String, String) {
    assert_eq!(job.status, Status::Failed, "{job:?}");
    let error = job.error.as_ref().unwrap();
    (error.code.clone(), error.message.clone())
}

#[tokio::test]
async fn rendered_diagram_is_an_artifact_of_its_job() {
    let install = Installation::new();
    let _server = install.start().await;
    let job = draw(&install, input("mermaid", FLOW)).await;
    assert_eq!(job.status, Status::Completed, "{job:?}");
    let result = result(&install, &job).await;
    let path = format!("GET /v1/jobs/{}/artifacts/diagram.svg", job.job_id);
    let picture = raw_http::send(install.address(), &path, &[], "").await.unwrap();
    assert!(picture.head.contains("image/svg+xml"), "{picture:?}");
    assert!(picture.body.contains("Begin") && picture.body.starts_with("<svg "), "{picture:?}");
    assert_eq!(result["contentType"], "image/svg+xml");
    assert_eq!(result["bytes"], picture.body.len());
}

/// The tests of `longhaul-confine` show the effect.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn rendering_child_is_confined() {
    let install = Installation::new();
    let server = install.start().await;
    assert_eq!(draw(&install, input("mermaid", FLOW)).await.status, Status::Completed);
    let is_child = |status: &str| {
        let parent = format!("PPid:\t{}\n", server.pid().as_raw_nonzero());
        status.contains(&parent)
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let statuses =
        processes.filter_map(|process| std::fs::read_to_string(process.path().join("status")).ok());
    let children: Vec<String> = statuses.filter(|status| is_child(status)).collect();
    assert!(!children.is_empty());
    for status in children {
        assert!(
            status.contains("Seccomp:\t2\n") && status.contains("NoNewPrivs:\t1\n"),
            "{status}"
        );
    }
}

/// Each of them ends a child or is refused, and the server draws on.
#[tokio::test]
async fn hostile_diagram_source_kills_its_child_process_only() {
    let install = Installation::new();
    let mut server = install.start().await;
    let deep_d2 = format!("{}x{}", "a: {".repeat(30_000), "}".repeat(30_000));
    let groups: Vec<_> = (0..10_000).map(|n| format!("subgraph s{n}\n")).collect();
    let groups = groups.concat();
    let deep_flow = format!("flowchart LR\n{groups}A\n{}", "end\n".repeat(10_000));
    let gigantic: Vec<_> = (0..9_000).map(|n| format!("a{n}->b{}\n", n * 7 % 9_000)).collect();
    let gigantic = gigantic.concat();
    let grid = "a: {grid-columns: 2000000000; grid-gap: 2000000000; b; c}\n";
    for source in [input("d2", &deep_d2), input("mermaid", &deep_flow), input("d2", &gigantic)] {
        let (code, message) = failure(&draw(&install, source).await);
        assert!(
            ["too-large", "took-too-long", "syntax"].contains(&code.as_str()),
            "{code}: {message}"
        );
    }
    draw(&install, input("d2", grid)).await;
    let huge = json!({"source": FLOW, "format": "mermaid", "outputType": "png", "options": {"width": 16_384, "scale": null}});
    assert_eq!(failure(&draw(&install, huge).await).0, "too-large");
    let long = input("mermaid", &format!("flowchart LR\n%% {}", "x".repeat(256 * 1024)));
    assert_eq!(failure(&draw(&install, long).await).0, "too-large");

    let job = draw(&install, input("mermaid", FLOW)).await;
    assert_eq!(job.status, Status::Completed, "{job:?}");
    server.signal(rustix::process::Signal::TERM);
    assert!(server.line().await.is_none());
}

#[tokio::test]
async fn diagram_syntax_error_is_the_job_error() {
    let install = Installation::new();
    let _server = install.start().await;
    let failed = failure(&draw(&install, input("d2", "a -> b\nc -> \n")).await);
    assert_eq!(failed.0, "syntax");
    assert!(failed.1.starts_with("line 2, column "), "{failed:?}");
    let failed = failure(&draw(&install, input("mermaid", "hologram\n  a")).await);
    assert_eq!(failed.0, "unsupported");
    let unknown = json!({"source": FLOW, "format": "mermaid", "outputType": "svg", "colour": 1});
    assert_eq!(failure(&draw(&install, unknown).await).0, "bad-input");
}

async fn render(install: &Installation, arguments: &[&str]) -> Output {
    install.command(LONGHAUL).arg("render").args(arguments).output().await.unwrap()
}

#[tokio::test]
async fn render_command_draws_a_file_without_a_server() {
    let install = Installation::new();
    std::fs::write(install.path().join("flow.mmd"), FLOW).unwrap();
    std::fs::write(install.path().join("net.d2"), "web -> database").unwrap();
    std::fs::write(install.path().join("wrong.mmd"), "flowchart LR\n  A --> [\n").unwrap();

    let drawn = render(&install, &["flow.mmd"]).await;
    assert!(drawn.status.success() && drawn.stdout.starts_with(b"<svg "), "{drawn:?}");
    let drawn = render(&install, &["net.d2", "-o", "net.png", "--width", "300", "--json"]).await;
    assert!(drawn.status.success(), "{drawn:?}");
    let said: Value = serde_json::from_slice(&drawn.stdout).unwrap();
    let png = std::fs::read(install.path().join("net.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    assert_eq!(said, json!({"file": "net.png", "contentType": "image/png", "bytes": png.len()}));

    let wrong = render(&install, &["wrong.mmd", "-o", "wrong.svg"]).await;
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("line 2"), "{wrong:?}");
    assert!(!install.path().join("wrong.svg").exists());
    for usage in [
        &["flow.mmd", "-o", "flow.gif"][..],
        &["longhaul.toml"],
        &["flow.mmd", "-o", "flow.svg", "--scale", "2"],
        &["flow.mmd", "--watch"],
    ] {
        assert_eq!(render(&install, usage).await.status.code(), Some(2), "{usage:?}");
    }
}

/// Waits for the line about a written image.
async fn next_line(watching: &mut TestProcess) -> String {
    watching.line().await.expect("it goes on watching")
}

#[tokio::test]
async fn render_watch_redraws_a_changed_file() {
    let install = Installation::new();
    let (file, picture) = (install.path().join("flow.mmd"), install.path().join("flow.svg"));
    std::fs::write(&file, FLOW).unwrap();
    let mut command = install.command(LONGHAUL);
    command.args(["render", "flow.mmd", "-o", "flow.svg", "--watch", "--json"]);
    let mut watching = TestProcess::spawn(command);
    assert!(next_line(&mut watching).await.contains("flow.svg"));
    assert!(std::fs::read_to_string(&picture).unwrap().contains("Begin"));

    // The error is printed, and the previous image stays.
    std::fs::write(&file, "flowchart LR\n  A --> [\n").unwrap();
    watching.wait_for_log("line 2").await;
    assert!(std::fs::read_to_string(&picture).unwrap().contains("Begin"));
    std::fs::write(&file, FLOW.replace("Begin", "Changed")).unwrap();
    next_line(&mut watching).await;
    assert!(std::fs::read_to_string(&picture).unwrap().contains("Changed"));

    watching.signal(rustix::process::Signal::INT);
    assert_eq!(watching.wait().await.status.code(), Some(0));
}
