//! The examples, run as executables.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

fn example(name: &str) -> Command {
    // Test binaries are in target/<profile>/deps, examples beside it.
    let this: PathBuf = std::env::current_exe().unwrap();
    let folder = this.parent().unwrap().parent().unwrap().join("examples");
    let mut command = Command::new(folder.join(name));
    command.stdout(Stdio::piped());
    command
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap)
}

/// Kills the child process when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn hello_example_prints_a_greeting() {
    let output = example("hello").arg("Ada").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Hello, Ada!\n");
    assert!(output.status.success());
}

#[test]
fn pipeline_example_survives_kill_9_and_repeats_no_finished_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipeline.db");

    let mut first = Running(example("pipeline").arg(&path).spawn().unwrap());
    let labelling = "labelling 4712 ...".to_owned();
    let before: Vec<String> = lines(&mut first.0).take_while(|line| *line != labelling).collect();
    assert!(before.contains(&"packing 4711 ...".to_owned()), "{before:?}");
    assert!(before.iter().any(|line| line.ends_with("(new)")), "{before:?}");
    first.0.kill().unwrap();
    first.0.wait().unwrap();

    let mut second = Running(example("pipeline").arg(&path).spawn().unwrap());
    let rest: Vec<String> = lines(&mut second.0).collect();
    assert!(second.0.wait().unwrap().success());
    // The job may continue before the submission returns.
    let (existing, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|line| line.ends_with("(existing)"));
    assert_eq!(existing.len(), 1);
    assert_eq!(rest, [&*labelling, "handing over 4713 ...", "order 4711 is on its way as 4714"]);
}

fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn axum_example_runs_report_and_tick_jobs() {
    let mut app = Running(example("axum_app").arg("127.0.0.1:0").spawn().unwrap());
    let line = lines(&mut app.0).next().unwrap();
    let address = line.strip_prefix("listening on http://").unwrap().to_owned();

    let body = r#"{"city":"Oslo"}"#;
    let answer = http(
        &address,
        &format!(
            "POST /reports HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let id = answer["id"].as_str().unwrap();

    let get = |path: &str| {
        http(&address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
    };
    let report = loop {
        let answer = get(&format!("/reports/{id}"));
        if answer.contains("completed") {
            break answer;
        }
    };
    assert_eq!(report, r#"{"status":"completed","report":"Oslo has 4 letters"}"#);
    while get("/ticks") == r#"{"latest":0}"# {}
}
