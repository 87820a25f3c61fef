//! A full disk below Postgres.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use longhaul::store::postgres::tokio_postgres;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{assert_full_disk_is_survived, may_mount, with_private_mount};
use crate::harness::{Installation, TestProcess, output_of, skip};

/// Size of the disk: a new cluster, two files of the write-ahead log, and some tables.
const DISK: &str = "128m";

/// A cluster whose data folder is a small disk. Killed when dropped.
struct SmallPostgres {
    folder: TempDir,
    url: String,
    postmaster: Pid,
}

impl SmallPostgres {
    async fn start(install: &Installation) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Postgres runs as another user than root.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let data = data.to_str().unwrap();
        let mount =
            format!("mount -t tmpfs -o size={DISK},mode=700,uid=$(id -u postgres) tmpfs {data}");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");
        let start = format!(
            "{script} start {} shared_buffers=32MB && head -1 {data}/postmaster.pid",
            folder.path().display()
        );
        let started = output_of(with_private_mount(install, &mount, &["sh", "-c", &start])).await;
        let started = started.unwrap();
        assert_eq!(started.code, Some(0), "{started:?}");
        let (url, pid) = started.out.trim().split_once('\n').unwrap();
        let postmaster = Pid::from_raw(pid.parse().unwrap()).unwrap();
        Self { url: url.to_owned(), postmaster, folder }
    }

    /// Returns the path of the data folder for processes that do not have its mount.
    fn disk(&self) -> PathBuf {
        let root = format!("/proc/{}/root", self.postmaster.as_raw_nonzero());
        let data = self.folder.path().join("data");
        Path::new(&root).join(data.strip_prefix("/").unwrap())
    }

    /// Begins a new file of the write-ahead log, so that what follows needs no further one: Postgres crashes if
    /// it cannot create one.
    async fn begin_log_file(&self) {
        let (client, connection) =
            tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("SELECT pg_switch_wal(); CHECKPOINT").await.unwrap();
    }
}

impl Drop for SmallPostgres {
    fn drop(&mut self) {
        kill_process(self.postmaster, Signal::QUIT).ok();
    }
}

#[tokio::test]
async fn full_disk_of_postgres_rejects_submissions_but_not_reads_and_recovers() {
    let install = Installation::new();
    if !may_mount(&install).await {
        return skip("mounting a small disk needs root");
    }
    let postgres = SmallPostgres::start(&install).await;
    let mut serve = install.serve();
    serve.env("LONGHAUL_DATABASE", &postgres.url);
    let server = install.wait_ready(TestProcess::spawn(serve)).await;
    postgres.begin_log_file().await;
    assert_full_disk_is_survived(&install, &postgres.disk()).await;
    assert_eq!(server.sigterm().await.status.code(), Some(0));
}
