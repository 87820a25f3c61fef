//! Programs that run as another user. Only root can start them, so other users test that a server says so.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhaul_client::wire::{Job, Status};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::harness::{CommandOutput, Installation, LONGHAUL, output_of, raw_http, skip};

const NEEDS_ROOT: &str = "starting a program as another user needs root";

/// A folder that every user may enter, with a file that only root may read and a place for working directories.
struct SharedFolder(TempDir);

impl SharedFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        fs::write(folder.path().join("secret"), "canary").unwrap();
        fs::set_permissions(folder.path().join("secret"), Permissions::from_mode(0o600)).unwrap();
        Self(folder)
    }

    fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    fn secret(&self) -> PathBuf {
        self.0.path().join("secret")
    }
}

/// Returns a configuration with the kind `work`, whose program runs as `user`.
fn config(work: &Path, user: &str, script: &str) -> String {
    format!(
        "work = \"{}\"\n[kinds.work]\ncommand = [\"sh\", \"-c\", '''{script}''']\nuser = {user:?}\n\
         payload = true\nmax_attempts = 1\n",
        work.display()
    )
}

/// Returns a user with supplementary groups, if there is one.
fn user() -> &'static str {
    let has = |name: &str| Command::new("id").arg(name).output().unwrap().status.success();
    if has("postgres") { "postgres" } else { "daemon" }
}

fn id(option: &str, user: &str) -> String {
    let output = Command::new("id").args([option, user]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Submits a payload to the kind `work` and returns its finished job.
async fn run(install: &Installation) -> Job {
    let text = [("content-type", "text/plain")];
    let call = "POST /v1/kinds/work/jobs";
    let submitted = raw_http::send(install.address(), call, &text, "from a caller").await.unwrap();
    assert_eq!(submitted.status, 202, "{submitted:?}");
    let (id, client) = (submitted.json()["jobId"].as_str().unwrap().to_owned(), install.client());
    loop {
        let job = client.job(&id, Some(std::time::Duration::from_secs(30))).await.unwrap();
        if job.completed_at.is_some() {
            return job;
        }
    }
}

async fn doctor(install: &Installation) -> CommandOutput {
    let mut command = install.command(LONGHAUL);
    command.args(["doctor", "--listen", "127.0.0.1:0"]);
    output_of(command).await.unwrap()
}

/// Asserts that the server does not start, and that `doctor` reports the same.
async fn refused(install: &Installation, reason: &str) {
    let Err(exited) = install.try_start().await else { panic!("it started") };
    assert!(exited.stderr.contains(reason), "{reason:?} is missing: {exited:?}");
    let doctor = doctor(install).await;
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.out.contains("✗ user: kind work: "), "{doctor:?}");
    assert!(doctor.out.contains(reason), "{reason:?} is missing: {doctor:?}");
}

#[tokio::test]
async fn program_runs_with_the_ids_groups_and_files_of_its_user() {
    let (shared, user) = (SharedFolder::new(), user());
    let script = format!(
        r#"cat {:?} >read 2>&1 && exit 9
           tr a-z A-Z <"$LONGHAUL_PAYLOAD" >"$LONGHAUL_ARTIFACTS/upper.txt"
           printf '["%s", "%s", "%s", "%s"]' "$(id -u)" "$(id -g)" "$(id -G)" "$HOME""#,
        shared.secret()
    );
    let install = Installation::with(&config(&shared.work(), user, &script));
    if !geteuid().is_root() {
        return refused(&install, "only if the server runs as root").await;
    }
    let server = install.start().await;
    let job = run(&install).await;
    assert_eq!(job.status, Status::Completed, "{:?}", job.error);
    let home = Command::new("sh").args(["-c", &format!("echo ~{user}")]).output().unwrap();
    let home = String::from_utf8(home.stdout).unwrap();
    let expected = [id("-u", user), id("-g", user), id("-G", user), home.trim().to_owned()];
    let result: Vec<String> = serde_json::from_str(job.result.unwrap().as_str()).unwrap();
    assert_eq!(result, expected);
    let path = format!("GET /v1/jobs/{}/artifacts/upper.txt", job.job_id);
    let artifact = raw_http::send(install.address(), &path, &[], "").await.unwrap();
    assert_eq!((artifact.status, artifact.body.as_str()), (200, "FROM A CALLER"));
    let folders = fs::read_dir(shared.work()).unwrap().flatten().map(|entry| entry.path());
    let left: Vec<_> =
        folders.filter(|path| path.is_dir()).flat_map(fs::read_dir).flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    server.sigterm().await;
}

#[tokio::test]
async fn links_in_the_artifacts_folder_expose_no_file_of_the_server() {
    if !geteuid().is_root() {
        return skip(NEEDS_ROOT);
    }
    let shared = SharedFolder::new();
    let folder = shared.0.path();
    for (script, code) in [
        (format!("ln -s {:?} \"$LONGHAUL_ARTIFACTS/x\"", shared.secret()), "artifact-not-a-file"),
        (format!("rmdir artifacts; ln -s {folder:?} artifacts"), "failed"),
        ("mkfifo \"$LONGHAUL_ARTIFACTS/x\"".to_owned(), "artifact-not-a-file"),
    ] {
        let install = Installation::with(&config(&shared.work(), "daemon", &script));
        let server = install.start().await;
        let job = run(&install).await;
        let error = job.error.unwrap();
        assert_eq!((job.status, error.code.as_str()), (Status::Failed, code), "{error:?}");
        assert!(job.artifacts.is_empty() && !error.message.contains("secret"), "{error:?}");
        server.sigterm().await;
    }
}

#[tokio::test]
async fn missing_program_of_another_user_fails_its_job() {
    if !geteuid().is_root() {
        return skip(NEEDS_ROOT);
    }
    let shared = SharedFolder::new();
    let text = config(&shared.work(), "daemon", "").replace("\"sh\"", "\"/opt/no-such-program\"");
    let install = Installation::with(&text);
    let server = install.start().await;
    let error = run(&install).await.error.unwrap();
    assert!(error.message.contains("cannot start no-such-program: No such file"), "{error:?}");
    assert!(!error.message.contains("/opt"), "{error:?}");
    server.sigterm().await;
}

#[tokio::test]
async fn unknown_user_of_a_kind_is_named_at_the_start() {
    let shared = SharedFolder::new();
    let install = Installation::with(&config(&shared.work(), "no-such-user", "id"));
    refused(&install, "there is no user \"no-such-user\" on this machine").await;
}

#[tokio::test]
async fn working_directories_that_a_user_cannot_enter_are_reported_at_the_start() {
    if !geteuid().is_root() {
        return skip(NEEDS_ROOT);
    }
    let install = Installation::with(&config(Path::new(""), "daemon", "id"));
    let reason = format!("\"daemon\" may not enter {}", install.path().display());
    refused(&install, &reason).await;
}

#[tokio::test]
async fn server_without_root_rejects_a_kind_with_a_user() {
    let shared = SharedFolder::new();
    let install = Installation::with(&config(&shared.work(), "daemon", "id"));
    if !geteuid().is_root() {
        return refused(&install, "only if the server runs as root").await;
    }
    // As `daemon`, in a directory that belongs to this user.
    let (uid, gid) = (id("-u", "daemon").parse().unwrap(), id("-g", "daemon").parse().unwrap());
    for path in [install.path().to_owned(), install.path().join("longhaul.toml")] {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    }
    fs::set_permissions(shared.0.path(), Permissions::from_mode(0o777)).unwrap();
    for mut command in [install.serve(), install.command(LONGHAUL)] {
        if command.as_std().get_args().next().is_none() {
            command.args(["doctor", "--listen", "127.0.0.1:0"]);
        }
        let output = output_of({
            command.uid(uid).gid(gid);
            command
        });
        let output = output.await.unwrap();
        let text = format!("{}{}", output.out, output.err);
        assert_eq!(output.code, Some(1), "{text}");
        let reason = "programs can run as user \"daemon\" only if the server runs as root";
        assert!(text.contains(reason), "{text}");
    }
}
