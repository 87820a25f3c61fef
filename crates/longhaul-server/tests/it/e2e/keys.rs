//! The server's keys, lost, exchanged and rotated.

use std::fs;

use crate::harness::{CommandOutput, Installation, LONGHAUL, output_of};

/// A install that a server has been in.
async fn used() -> Installation {
    let install = Installation::new();
    assert_eq!(install.start().await.sigterm().await.status.code(), Some(0));
    install
}

/// Asserts that the server does not start and that `doctor` reports why.
async fn refused(install: &Installation, because: &str) {
    let doctor = run(install, &["doctor", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.out.contains("✗ server key: "), "{doctor:?}");
    let Err(exited) = install.try_start().await else { panic!("it started without its key") };
    assert_eq!(exited.status.code(), Some(1), "{exited:?}");
    for said in [because, "restore that key", "and start again"] {
        assert!(exited.stderr.contains(said), "{said:?} is missing: {exited:?}");
        assert!(doctor.out.contains(said), "{said:?} is missing: {doctor:?}");
    }
}

async fn run(install: &Installation, args: &[&str]) -> CommandOutput {
    let mut command = install.command(LONGHAUL);
    command.args(args);
    output_of(command).await.unwrap()
}

#[tokio::test]
async fn lost_server_key_file_is_reported_and_not_replaced() {
    let install = used().await;
    let (file, kept) = (install.data_dir().join("server.key"), install.path().join("kept"));
    let text = fs::read_to_string(&file).unwrap();
    let id = text.split_once("lhk_").unwrap().1.split('_').next().unwrap();
    fs::rename(&file, &kept).unwrap();
    refused(&install, &format!("is encrypted with server key \"{id}\", and the key file ")).await;
    refused(&install, "server.key does not exist").await;
    assert!(!file.exists(), "a fresh key would hide that the old one is lost");

    fs::rename(&kept, &file).unwrap();
    install.start().await.sigterm().await;
}

#[tokio::test]
async fn deleted_key_markers_allow_a_new_server_key() {
    let (install, other) = (used().await, used().await);
    fs::copy(other.data_dir().join("server.key"), install.data_dir().join("server.key")).unwrap();
    refused(&install, "server.key has only \"").await;
    fs::remove_file(install.data_dir().join("blobs/_server-keys")).unwrap();
    install.start().await.sigterm().await;
    install.start().await.sigterm().await;
}

#[tokio::test]
async fn server_key_from_before_a_rotation_is_accepted_with_a_warning() {
    let install = used().await;
    let file = install.data_dir().join("server.key");
    let before = fs::read(&file).unwrap();
    assert_eq!(run(&install, &["rotate-key"]).await.code, Some(0));
    let after = fs::read(&file).unwrap();
    install.start().await.sigterm().await;

    // Another replica that has not got the fresh key yet.
    fs::write(&file, before).unwrap();
    let mut server = install.start().await;
    server.wait_for_log("a newer server key that this one does not have").await;
    server.sigterm().await;

    // And one that no longer has the old one.
    let fresh = after.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    fs::write(&file, fresh).unwrap();
    install.start().await.sigterm().await;
}
