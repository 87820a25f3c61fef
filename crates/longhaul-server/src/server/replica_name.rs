//! Waits for a replica name that a killed process still holds.
//!
//! Only for a process of which the engine does not know for sure that it has ended, for example in a container that was
//! restarted: the others it replaces at once.

use std::time::Duration;

use longhaul::BuildError;
use longhaul::store::ReplicaState;
use rustix::process::{Pid, test_kill_process};

use super::StartError;

/// Interval between attempts to register the name.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Starts an engine. If a process of this host that no longer runs still holds its name, for example
/// after a kill and a quick restart, waits until its heartbeat expires.
pub(super) async fn start_when_free<T>(
    mut start: impl AsyncFnMut() -> Result<T, StartError>,
) -> Result<T, StartError> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut waited = Duration::ZERO;
    loop {
        let (replica, holder) = match start().await {
            Err(StartError::Engine(BuildError::NameTaken { replica, holder })) => (replica, holder),
            started => return started,
        };
        let dead = holder.as_ref().filter(|held| is_stale(held, &host, runs));
        match dead {
            Some(dead) if waited <= dead.heartbeat.silent_after => {
                if waited.is_zero() {
                    tracing::warn!(
                        replica,
                        pid = dead.heartbeat.pid,
                        seconds = dead.heartbeat.silent_after.as_secs(),
                        "the replica name still belongs to a killed process; waiting until its \
                         heartbeat expires",
                    );
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
                waited += RETRY_INTERVAL;
            }
            Some(_) | None => return Err(BuildError::NameTaken { replica, holder }.into()),
        }
    }
}

/// Returns whether the holder was a process of this host that no longer runs. A holder with our own
/// process id is an earlier process, which is usual in containers.
fn is_stale(held: &ReplicaState, host: &str, runs: impl FnOnce(u32) -> bool) -> bool {
    let pid = held.heartbeat.pid;
    held.heartbeat.host == host && (pid == std::process::id() || !runs(pid))
}

/// Returns true for a process that we have no permission to signal.
fn runs(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use longhaul::Timestamp;
    use longhaul::store::Heartbeat;

    use super::*;

    fn holder(host: &str, pid: u32) -> Box<ReplicaState> {
        let beat = Heartbeat {
            replica: "a".to_owned(),
            run: 1,
            role: "all".to_owned(),
            version: String::new(),
            host: host.to_owned(),
            pid,
            process: String::new(),
            kinds: Vec::new(),
            running: 0,
            concurrency: 0,
            silent_after: Duration::from_secs(15),
        };
        let at = Timestamp::from_millis(0);
        Box::new(ReplicaState { heartbeat: beat, started_at: at, seen_at: at, alive: true })
    }

    fn taken(holder: Box<ReplicaState>) -> StartError {
        BuildError::NameTaken { replica: "a".to_owned(), holder: Some(holder) }.into()
    }

    #[test]
    fn only_a_dead_process_of_this_host_is_a_stale_name_holder() {
        let stale = |host, pid, runs: bool| is_stale(&holder(host, pid), "here", |_| runs);
        assert!(stale("here", 1, false));
        assert!(!stale("here", 1, true));
        assert!(!stale("there", 1, false), "unknown on this host");
        assert!(stale("here", std::process::id(), true), "an earlier process with our id");
    }

    #[test]
    fn processes_are_told_from_those_that_are_no_more() {
        assert!(runs(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!runs(child.id()));
    }

    #[tokio::test(start_paused = true)]
    async fn name_of_a_killed_process_is_waited_for() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut tries = 0;
        let started = start_when_free(async || {
            tries += 1;
            if tries < 10 { Err(taken(holder(&host, std::process::id()))) } else { Ok(tries) }
        });
        assert_eq!(started.await.unwrap(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn replica_name_of_a_live_process_is_rejected() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for held in [holder("elsewhere", 1), holder(&host, std::process::id())] {
            let start = async || Err::<(), _>(taken(held.clone()));
            let refused = start_when_free(start).await.unwrap_err().to_string();
            let begin = "another replica with the name \"a\" is running (process";
            assert!(refused.starts_with(begin), "{refused}");
        }
    }
}
