//! Power cuts: a server continues with the bytes that its disk has received, and without those that only the kernel had.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use longhaul_client::Client;
use longhaul_client::wire::Status;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::submit::end;
use super::{may_mount, serve_on};
use crate::harness::raw_http;
use crate::harness::{Installation, TestProcess, output_of, skip};

const CUTS: usize = 3;
const ACKNOWLEDGED_BEFORE_CUT: usize = 24;
const DISK_BYTES: u64 = 64 << 20;

/// A kind that returns the size of its payload.
const SIZE_OF_PAYLOAD: &str =
    "[kinds.size]\ncommand = [\"sh\", \"-c\", \"wc -c <$LONGHAUL_PAYLOAD\"]\npayload = true\n";

/// An acknowledgement that a caller has received.
#[derive(Debug, Clone)]
struct Acknowledgement {
    id: String,
    result: Value,
    /// The response had the result.
    completed: bool,
}

/// A way to submit a job.
#[derive(Debug, Clone, Copy)]
enum Submission {
    Input,
    InputAndWait,
    Payload,
}

impl Submission {
    const ALL: [Self; 3] = [Self::Input, Self::InputAndWait, Self::Payload];

    /// Returns `None` if the server was stopped or killed before it responded.
    async fn send(self, address: SocketAddr, number: usize) -> Option<Acknowledgement> {
        let result = match self {
            Self::Input | Self::InputAndWait => json!(number),
            Self::Payload => json!(1 + number * 1_000),
        };
        let (call, kind, body) = match self {
            Self::Input | Self::InputAndWait => {
                let body = json!({"kind": "demo", "input": {"result": number}}).to_string();
                ("POST /v1/jobs", "application/json", body)
            }
            Self::Payload => {
                let body = "p".repeat(1 + number * 1_000);
                ("POST /v1/kinds/size/jobs", "application/octet-stream", body)
            }
        };
        let mut headers = vec![("content-type", kind)];
        if matches!(self, Self::InputAndWait) {
            headers.push(("prefer", "wait=20"));
        }
        let response = raw_http::send(address, call, &headers, &body).await.ok()?;
        assert!([200, 202].contains(&response.status), "{response:?}");
        let job = response.json();
        let id = job["jobId"].as_str().unwrap().to_owned();
        Some(Acknowledgement { id, result, completed: job["status"] == "completed" })
    }
}

/// Mounts an image. The file system writes nothing by itself for minutes, so that it cannot make up for a missing sync.
fn mount(image: &Path) -> String {
    format!("mount -t ext4 -o loop,commit=300 {}", image.display())
}

/// Stops a server and waits until none of its threads is inside a system call.
async fn stop(server: &TestProcess) {
    server.signal(rustix::process::Signal::STOP);
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let state = std::fs::read_to_string(task.unwrap().path().join("stat"));
        state.map_or(true, |stat| stat.rsplit(')').next().unwrap().starts_with(" T"))
    };
    while !std::fs::read_dir(&tasks).unwrap().all(is_stopped) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_loses_no_acknowledged_job() {
    let install = Installation::with(SIZE_OF_PAYLOAD);
    if !may_mount(&install).await {
        return skip("mounting a disk needs root");
    }
    let image = install.path().join("disk");
    std::fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
    let mut format = install.command("mkfs.ext4");
    format.arg("-q").arg(&image);
    if output_of(format).await.is_err() {
        return skip("there is no mkfs.ext4");
    }
    let server = install.wait_ready(serve_on(&install, &mount(&image))).await;
    let (acknowledge, mut acknowledgements) = mpsc::unbounded_channel();
    let mut callers = JoinSet::new();
    for (caller, submission) in Submission::ALL.into_iter().enumerate() {
        let (address, acknowledge) = (install.address(), acknowledge.clone());
        callers.spawn(async move {
            for number in (caller..).step_by(Submission::ALL.len()) {
                let Some(acknowledged) = submission.send(address, number).await else { return };
                acknowledge.send(acknowledged).unwrap();
            }
        });
    }
    let (mut acknowledged, mut cuts) = (BTreeMap::new(), Vec::new());
    for cut in 0..CUTS {
        for _ in 0..ACKNOWLEDGED_BEFORE_CUT {
            let job: Acknowledgement = acknowledgements.recv().await.unwrap();
            acknowledged.insert(job.id.clone(), job);
        }
        stop(&server).await;
        let copy = install.path().join(format!("disk-{cut}"));
        std::fs::copy(&image, &copy).unwrap();
        while let Ok(job) = acknowledgements.try_recv() {
            acknowledged.insert(job.id.clone(), job);
        }
        cuts.push((copy, acknowledged.clone()));
        server.signal(rustix::process::Signal::CONT);
    }
    server.kill9().await;
    callers.join_all().await;
    for (copy, acknowledged) in cuts {
        assert_all_survived(&copy, acknowledged).await;
    }
}

/// Starts a server on a copy of the disk, which has every acknowledged job and completes it.
async fn assert_all_survived(disk: &Path, acknowledged: BTreeMap<String, Acknowledgement>) {
    let install = Installation::with(SIZE_OF_PAYLOAD);
    let server = install.wait_ready(serve_on(&install, &mount(disk))).await;
    let client: Client = install.client();
    assert!(acknowledged.values().any(|job| job.completed), "{acknowledged:?}");
    for (id, job) in acknowledged {
        let found = client.job(&id, None).await.unwrap_or_else(|error| panic!("{job:?}: {error}"));
        assert!(!job.completed || found.status == Status::Completed, "{job:?} became {found:?}");
        let ended = end(&client, &id).await;
        let result = ended.result.as_ref().map(|result| serde_json::to_value(result).unwrap());
        assert_eq!((ended.status, result), (Status::Completed, Some(job.result)), "{ended:?}");
    }
    assert_eq!(server.sigterm().await.status.code(), Some(0));
}
