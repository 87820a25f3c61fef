//! A server that is started before its database.

use std::net::SocketAddr;

use longhaul_client::wire::Status;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::Command;

use crate::e2e::submit::{end, submit};
use crate::harness::{Installation, TestDatabase, TestProcess};

/// Response of a Postgres that recovers.
const STARTING: &[u8] = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";

/// A database whose server refuses connections until it is started.
struct LateDatabase {
    database: TestDatabase,
    socket: TcpSocket,
}

impl LateDatabase {
    async fn new() -> Self {
        let database = TestDatabase::create().await;
        let socket = TcpSocket::new_v4().unwrap();
        // Nothing listens on a bound socket, and no other process can take its port.
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self { database, socket }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn url(&self) -> String {
        let url = self.database.url();
        let url = url.replace(server_of(&url), &self.address().to_string());
        format!("{url}?sslmode=disable")
    }

    /// Starts the server. It rejects the first connection, as one that recovers does.
    fn start(self) -> TestDatabase {
        let listener = self.socket.listen(64).unwrap();
        let url = self.database.url();
        tokio::spawn(async move {
            reject(listener.accept().await.unwrap().0).await;
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = TcpStream::connect(server_of(&url)).await.unwrap();
                tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
            }
        });
        self.database
    }
}

/// Returns host and port of a URL.
fn server_of(url: &str) -> &str {
    url.split_once('@').unwrap().1.split('/').next().unwrap()
}

async fn reject(mut client: TcpStream) {
    let length = client.read_u32().await.unwrap();
    client.read_exact(&mut vec![0; usize::try_from(length).unwrap() - 4]).await.unwrap();
    client.write_u8(b'E').await.unwrap();
    client.write_u32(u32::try_from(STARTING.len() + 4).unwrap()).await.unwrap();
    client.write_all(STARTING).await.unwrap();
}

fn serve(install: &Installation, database: &str) -> Command {
    let mut command = install.serve();
    command.env("LONGHAUL_DATABASE", database);
    command
}

#[tokio::test]
async fn server_waits_until_its_database_accepts_connections() {
    let (install, late) = (Installation::new(), LateDatabase::new().await);
    let mut server = TestProcess::spawn(serve(&install, &late.url()));
    let waiting = format!("waiting for Postgres at {}: ", late.address());
    server.wait_for_log(&format!("{waiting}Connection refused")).await;
    let _database = late.start();
    server.wait_for_log(&format!("{waiting}the database system is starting up (57P03)")).await;
    let _server = install.wait_ready(server).await;
    let job = submit(&install.client(), "demo", json!({})).await;
    assert_eq!(end(&install.client(), &job.job_id).await.status, Status::Completed);
}

#[tokio::test]
async fn server_that_should_not_wait_for_its_database_exits() {
    let (install, late) = (Installation::new(), LateDatabase::new().await);
    let mut command = serve(&install, &late.url());
    command.args(["--wait-for-database", "0s"]);
    let exited = TestProcess::spawn(command).wait().await;
    assert!(!exited.status.success(), "{exited:?}");
    let refused = format!("cannot connect to Postgres at {}: Connection refused", late.address());
    assert!(exited.stderr.contains(&refused), "{exited:?}");
    assert!(!exited.stderr.contains("waiting for Postgres"), "{exited:?}");
}

#[tokio::test]
async fn server_does_not_wait_for_a_database_that_does_not_exist() {
    let (install, database) = (Installation::new(), TestDatabase::create().await);
    let missing = format!("{}_missing", database.url());
    let exited = TestProcess::spawn(serve(&install, &missing)).wait().await;
    assert!(!exited.status.success(), "{exited:?}");
    assert!(exited.stderr.contains("does not exist (3D000)"), "{exited:?}");
    assert!(!exited.stderr.contains("waiting for Postgres"), "{exited:?}");
}

#[tokio::test]
async fn sigterm_ends_a_server_that_waits_for_its_database() {
    let (install, late) = (Installation::new(), LateDatabase::new().await);
    let mut server = TestProcess::spawn(serve(&install, &late.url()));
    server.wait_for_log("waiting for Postgres at").await;
    let exited = server.sigterm().await;
    assert_eq!(exited.status.code(), Some(0), "{exited:?}");
}
