//! `longhaul listen`, the command for developers of webhook receivers.

use std::net::SocketAddr;
use std::process::Stdio;

use axum::http::{HeaderName, HeaderValue};
use longhaul::Clock;
use longhaul_server::webhooks::signature::{SigningSecret, headers};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::harness::raw_http::{RawResponse, send};
use crate::harness::{Installation, LONGHAUL, output_of};

/// Unusual formatting on purpose, because re-serializing it would break the signature.
const BODY: &str = "{\"type\" : \"job.completed\",\n \"data\":{\"jobId\":\"01KA3V8J5T0000000000000000\",\
                    \"status\":\"completed\",\"n\":1.0}}";

/// The command, running.
pub(crate) struct Listening {
    child: Child,
    pub(crate) address: SocketAddr,
    lines: Lines<BufReader<ChildStdout>>,
    said: Lines<BufReader<ChildStderr>>,
    /// The lines printed at the start.
    first: String,
}

impl Listening {
    pub(crate) async fn start(install: &Installation, args: &[&str]) -> Self {
        let mut command = install.command(LONGHAUL);
        command.args(["listen", "--port", "0"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = said.next_line().await.unwrap().expect("it ended before it listened");
        let address = first.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("{first}")).parse().unwrap();
        Self { child, address, lines, said, first }
    }

    async fn deliver(&self, fields: &[(&str, &str)]) -> RawResponse {
        send(self.address, "POST /hook", fields, BODY).await.unwrap()
    }

    /// Delivers what is signed with this secret.
    async fn deliver_signed(&self, secret: &SigningSecret) -> RawResponse {
        let fields = signed(secret);
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        self.deliver(&fields).await
    }

    /// The next delivery as it was printed, without its time.
    pub(crate) async fn line(&mut self) -> String {
        let line = self.lines.next_line().await.unwrap().expect("it ended");
        line.split_once("  ").unwrap_or_else(|| panic!("{line}")).1.to_owned()
    }

    async fn interrupt(mut self) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().await.unwrap().code()
    }
}

fn signed(secret: &SigningSecret) -> [(HeaderName, HeaderValue); 3] {
    let secrets = std::slice::from_ref(secret);
    headers("msg_1", Clock::system().now(), BODY.as_bytes(), secrets).unwrap()
}

#[tokio::test]
async fn listen_shows_deliveries_with_their_signature_check() {
    let install = Installation::new();
    let (good, bad) = (SigningSecret::generate(), SigningSecret::generate());
    let job = "job.completed  01KA3V8J5T0000000000000000  completed";
    let mut checking = Listening::start(&install, &["--secret", &good.expose()]).await;
    assert_eq!(checking.deliver_signed(&good).await.status, 200);
    assert_eq!(checking.line().await, format!("{job}  msg_1  signature ok  responded 200"));
    checking.deliver_signed(&bad).await;
    let why = "the signature does not match the secret";
    let line = format!("{job}  msg_1  signature WRONG ({why})  responded 200");
    assert_eq!(checking.line().await, line);
    checking.deliver(&[]).await;
    let why = "missing or invalid header webhook-id";
    assert_eq!(checking.line().await, format!("{job}  signature WRONG ({why})  responded 200"));

    let mut trusting = Listening::start(&install, &["--status", "503"]).await;
    assert_eq!(trusting.deliver_signed(&bad).await.status, 503);
    assert_eq!(
        trusting.line().await,
        format!("{job}  msg_1  signature not verified  responded 503")
    );
}

#[tokio::test]
async fn listen_prints_its_address_and_exits_on_ctrl_c() {
    let install = Installation::new();
    let mut listening = Listening::start(&install, &[]).await;
    let url = format!("http://{}/", listening.address);
    let expected = format!(
        "listening for webhooks on {url} (Ctrl-C to stop; signatures are not verified without --secret)"
    );
    assert_eq!(listening.first, expected);
    let hint = listening.said.next_line().await.unwrap().unwrap();
    assert!(hint.contains("[egress] allow = [\"127.0.0.1/32\"]"), "{hint}");
    assert!(hint.contains("LONGHAUL_EGRESS_ALLOW=127.0.0.1/32"), "{hint}");
    assert_eq!(listening.interrupt().await, Some(0));
}

#[tokio::test]
async fn listen_prints_json_lines() {
    let install = Installation::new();
    let secret = SigningSecret::generate();
    let mut listening = Listening::start(&install, &["--json", "--secret", &secret.expose()]).await;
    listening.deliver_signed(&secret).await;
    let line = listening.lines.next_line().await.unwrap().unwrap();
    let mut shown: Value = serde_json::from_str(&line).unwrap();
    assert!(shown["receivedAt"].take().as_str().unwrap().ends_with('Z'), "{line}");
    insta::assert_json_snapshot!(shown, @r#"
    {
      "receivedAt": null,
      "method": "POST",
      "path": "/hook",
      "id": "msg_1",
      "signature": "ok",
      "signatureError": null,
      "answered": 200,
      "forwardMs": null,
      "forwardError": null,
      "body": {
        "type": "job.completed",
        "data": {
          "jobId": "01KA3V8J5T0000000000000000",
          "status": "completed",
          "n": 1.0
        }
      }
    }
    "#);
    assert_eq!(listening.interrupt().await, Some(0));
}

/// Accepts one request and responds.
async fn receive_one(listener: TcpListener, response: &'static str) -> String {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).ends_with(BODY) {
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0);
    }
    socket.write_all(response.as_bytes()).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn listen_forwards_deliveries_unchanged_and_returns_the_response() {
    let install = Installation::new();
    let secret = SigningSecret::generate();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mine?a=b", listener.local_addr().unwrap());
    let mut listening = Listening::start(&install, &["--forward", &url]).await;
    let response = "HTTP/1.1 429 Slow down\r\nretry-after: 7\r\ncontent-type: text/x\r\nx-other: 1\r\n\
                  content-length: 5\r\n\r\nlater";
    let request = tokio::spawn(receive_one(listener, response));
    let answered = listening.deliver_signed(&secret).await;
    assert_eq!((answered.status, answered.body.as_str()), (429, "later"));
    assert!(answered.head.contains("retry-after: 7\r\n"), "{answered:?}");
    assert!(answered.head.contains("content-type: text/x\r\n"), "{answered:?}");
    assert!(!answered.head.contains("x-other"), "{answered:?}");
    let line = listening.line().await;
    assert!(line.contains("  signature not verified  forwarded: 429 in "), "{line}");

    let request = request.await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, BODY);
    assert!(head.starts_with("POST /mine?a=b HTTP/1.1\r\n"), "{head}");
    let fields: axum::http::HeaderMap = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
    assert_eq!(fields["content-type"], "application/json");
    let now = Clock::system().now();
    let verified =
        longhaul_server::webhooks::signature::verify(&fields, BODY.as_bytes(), &[secret], now);
    assert_eq!(verified, Ok(()));
}

#[tokio::test]
async fn listen_returns_502_if_the_forward_target_is_unreachable() {
    let install = Installation::new();
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", receiver.local_addr().unwrap());
    drop(receiver);
    let mut listening = Listening::start(&install, &["--forward", &url]).await;
    let answered = listening.deliver(&[]).await;
    assert_eq!(answered.status, 502);
    assert!(
        answered.body.starts_with("longhaul listen: --forward: cannot connect"),
        "{answered:?}"
    );
    let line = listening.line().await;
    assert!(line.contains("responded 502, forwarding failed: cannot connect"), "{line}");
}

#[tokio::test]
async fn listen_usage_error_exits_with_2_without_printing_secrets() {
    let install = Installation::new();
    for (args, told) in [
        (&["--secret", "hush"][..], "--secret: a signing secret must begin with whsec_"),
        (&["--secret", "whsec_hush"], "--secret: a signing secret must have 24 to 64 bytes"),
        (&["--forward", "ftp://host"], "--forward: URL must start with https:// or http://"),
        (&["--forward", "http://h", "--status", "201"], "cannot be used with"),
        (&["--port", "1", "--listen", "127.0.0.1:1"], "cannot be used with"),
        (&["--status", "99"], "99 is not in 200..600"),
    ] {
        let mut command = install.command(LONGHAUL);
        command.arg("listen").args(args);
        let ran = output_of(command).await.unwrap();
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.err.contains(told) && !ran.err.contains("hush"), "{args:?}: {ran:?}");
    }
    let mut command = install.command(LONGHAUL);
    command.arg("listen").env("LONGHAUL_WEBHOOK_SECRET", "hush");
    let ran = output_of(command).await.unwrap();
    assert!(ran.code == Some(2) && !ran.err.contains("hush"), "{ran:?}");
}

#[tokio::test]
async fn listen_on_a_used_port_suggests_another() {
    let install = Installation::new();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut command = install.command(LONGHAUL);
    command.args(["listen", "--port", &taken.local_addr().unwrap().port().to_string()]);
    let ran = output_of(command).await.unwrap();
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("Address already in use") && ran.err.contains("--port 0"), "{ran:?}");
}

#[tokio::test]
async fn help_says_what_it_is_for() {
    let install = Installation::new();
    let mut command = install.command(LONGHAUL);
    command.args(["listen", "--help"]).env("COLUMNS", "100");
    let help = output_of(command).await.unwrap();
    assert_eq!(help.code, Some(0), "{help:?}");
    let own = help.out.split("\nConnection and output").next().unwrap();
    insta::assert_snapshot!(own);
}
