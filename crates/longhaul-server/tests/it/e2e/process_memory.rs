//! Secrets in the memory and the environment of the server.

use serde_json::json;

use super::submit::{end, submit};
use crate::harness::{Installation, LONGHAUL, TestProcess};

const SPY: &str = r#"
[kinds.spy]
command = ["sh", "-c", "cat >/dev/null; if cat /proc/$PPID/environ >/dev/null 2>&1; then echo 1; else echo 0; fi"]
"#;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn program_of_a_job_cannot_read_the_server_environment() {
    let install = Installation::with(SPY);
    // Root reads every process by its capabilities, so the server runs without them.
    let mut argv = vec!["setpriv", "--bounding-set", "-all"];
    if !rustix::process::getuid().is_root() {
        argv.clear();
    }
    let listen = install.address().to_string();
    argv.extend([LONGHAUL, "serve", "--listen", &listen]);
    let mut command = install.command(argv.remove(0));
    command.args(argv);
    let _server = install.wait_ready(TestProcess::spawn(command)).await;
    let client = install.client();
    let job = submit(&client, "spy", json!({})).await;
    let job = end(&client, &job.job_id).await;
    let result = job.result.as_ref().map(ToString::to_string);
    assert_eq!(result.as_deref(), Some("0"), "{job:?}");
}
