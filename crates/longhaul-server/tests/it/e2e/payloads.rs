//! Nothing of a payload is left, wherever the server is killed on the way.

use std::fs;
use std::path::Path;

use longhaul_client::wire::Receipt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::database::Database;
use super::home::{Home, Server};

/// What must not be found anywhere: it comes again and again in every payload, also across the borders
/// of what is sealed at a time.
const CANARY: &[u8] = b"canary-7c1d2f-do-not-keep-me;";
const PAYLOAD_BYTES: usize = 400_000;

/// Waits for a file that the test makes, then leaves its payload as an artifact. A retry is at once.
fn config() -> String {
    let program = "while [ ! -e $HOME/go ]; do sleep 0.01; done; \
                   cp $LONGHAUL_PAYLOAD $LONGHAUL_ARTIFACTS/copy; wc -c <$LONGHAUL_PAYLOAD";
    format!(
        "[kinds.keep]\ncommand = [\"sh\", \"-c\", \"{program}\"]\npayload = true\nretry_first = \"0s\"\n\
         [lease]\nduration = \"2s\"\nrenew = \"500ms\"\nsweep = \"100ms\"\n"
    )
}

fn payload() -> Vec<u8> {
    CANARY.iter().copied().cycle().take(PAYLOAD_BYTES).collect()
}

fn head(home: &Home, method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n",
        home.address()
    )
}

/// Sends a request; the answer's status and JSON.
async fn ask(home: &Home, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let mut stream = TcpStream::connect(home.address()).await.unwrap();
    stream.write_all(head(home, method, path, body.len()).as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let json = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
    (status, json.unwrap_or(Value::Null))
}

async fn receipt(home: &Home, id: &str) -> Receipt {
    let (status, json) = ask(home, "GET", &format!("/v1/jobs/{id}/receipt"), b"").await;
    assert_eq!(status, 200, "{json}");
    serde_json::from_value(json).unwrap()
}

/// Every file below a folder that holds the canary.
fn found_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(found_in(&path));
        } else if fs::read(&path).is_ok_and(|bytes| holds_canary(&bytes)) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn holds_canary(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|part| part == CANARY)
}

/// As Postgres shows bytes.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

struct Case {
    home: Home,
    /// None: a SQLite file in the data folder.
    database: Option<Database>,
}

impl Case {
    fn serve(&self) -> tokio::process::Command {
        let mut serve = self.home.serve();
        serve.env("HOME", self.home.path()).env("TMPDIR", self.home.path());
        if let Some(database) = &self.database {
            serve.args(["--database", &database.url()]);
        }
        serve
    }

    async fn start(&self) -> Server {
        // A killed server's port and lock may be held for some milliseconds.
        for _ in 0..100 {
            if let Ok(server) = self.home.ready_or_exited(Server::spawn(self.serve())).await {
                return server;
            }
        }
        panic!("the server does not start");
    }

    /// Waits until the job is gone with all that was stored for it, and looks everywhere.
    async fn nothing_is_left(&self, id: &str) {
        while !receipt(&self.home, id).await.deleted {
            tokio::task::yield_now().await;
        }
        assert_eq!(found_in(self.home.path()), Vec::<String>::new());
        if let Some(database) = &self.database {
            let (dump, hex) = (database.dump().await, hex(CANARY));
            assert!(
                !holds_canary(dump.as_bytes()) && !dump.contains(&hex),
                "the database holds it"
            );
        }
    }

    async fn ended(&self, id: &str) -> Value {
        loop {
            let path = format!("/v1/jobs/{id}?wait=5");
            let (_, job) = ask(&self.home, "GET", &path, b"").await;
            if job["completedAt"].is_string() {
                return job;
            }
        }
    }
}

async fn killed_anywhere(database: Option<Database>) {
    let case = Case { home: Home::with(&config()), database };
    let go = case.home.path().join("go");

    // In the middle of an upload: nobody knows of it, and what is there cannot be read.
    let server = case.start().await;
    let mut half = TcpStream::connect(case.home.address()).await.unwrap();
    let path = "/v1/kinds/keep/jobs";
    half.write_all(head(&case.home, "POST", path, PAYLOAD_BYTES).as_bytes()).await.unwrap();
    half.write_all(&payload()[..PAYLOAD_BYTES / 2]).await.unwrap();
    server.kill9().await;
    assert_eq!(found_in(case.home.path()), Vec::<String>::new());

    // While the job runs, with its payload in clear in its folder.
    let server = case.start().await;
    let (status, job) = ask(&case.home, "POST", path, &payload()).await;
    assert_eq!(status, 202, "{job}");
    let id = job["jobId"].as_str().unwrap().to_owned();
    let work = case.home.data().join("work");
    while found_in(&work).is_empty() {
        tokio::task::yield_now().await;
    }
    server.kill9().await;
    let server = case.start().await;
    let clear = found_in(case.home.path());
    assert!(clear.iter().all(|path| Path::new(path).starts_with(&work)), "{clear:?}");

    // Right after its end.
    fs::write(&go, "").unwrap();
    let job = case.ended(&id).await;
    assert_eq!((&job["status"], &job["result"]), (&"completed".into(), &PAYLOAD_BYTES.into()));
    server.kill9().await;
    let server = case.start().await;
    let stored = receipt(&case.home, &id).await;
    assert!(stored.stored[0].key_destroyed_at.is_some());
    assert_eq!(found_in(case.home.path()), Vec::<String>::new());

    // After its artifact was read and the job deleted.
    let (status, _) = ask(&case.home, "GET", &format!("/v1/jobs/{id}/artifacts/copy"), b"").await;
    assert_eq!(status, 200);
    let (status, _) = ask(&case.home, "DELETE", &format!("/v1/jobs/{id}"), b"").await;
    assert_eq!(status, 204);
    server.kill9().await;
    let server = case.start().await;
    case.nothing_is_left(&id).await;
    let left: Vec<_> = receipt(&case.home, &id).await.stored;
    assert!(left.iter().all(|one| one.deleted_by.is_some()), "{left:?}");
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_payload_is_left_on_sqlite() {
    killed_anywhere(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_payload_is_left_on_postgres() {
    killed_anywhere(Some(Database::create().await)).await;
}
