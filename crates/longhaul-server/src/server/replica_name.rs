//! A replica's name that seems to be taken, though by nobody who lives.

use std::time::Duration;

use longhaul::BuildError;
use longhaul::store::ReplicaState;
use rustix::process::{Pid, test_kill_process};

/// How often a name is asked for that will be free soon.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Starts an engine. If its name is still that of a process which ran on this host and is no more,
/// as after a kill and a quick restart, waits until that one counts as silent.
pub(super) async fn start_when_free<T, E: From<BuildError>>(
    mut start: impl AsyncFnMut() -> Result<T, StartFailure<E>>,
) -> Result<T, E> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut waited = Duration::ZERO;
    loop {
        let (replica, holder) = match start().await {
            Ok(started) => return Ok(started),
            Err(StartFailure::Other(error)) => return Err(error),
            Err(StartFailure::NameTaken { replica, holder }) => (replica, holder),
        };
        let dead = holder.as_ref().filter(|held| is_stale(held, &host, runs));
        match dead {
            Some(dead) if waited <= dead.heartbeat.silent_after => {
                if waited.is_zero() {
                    tracing::warn!(
                        replica,
                        pid = dead.heartbeat.pid,
                        seconds = dead.heartbeat.silent_after.as_secs(),
                        "the replica's name is still that of a process that was killed; waiting \
                         until it counts as silent",
                    );
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
                waited += RETRY_INTERVAL;
            }
            Some(_) | None => return Err(BuildError::NameTaken { replica, holder }.into()),
        }
    }
}

/// Why an engine did not start.
pub(super) enum StartFailure<E> {
    NameTaken { replica: String, holder: Option<Box<ReplicaState>> },
    Other(E),
}

impl<E: From<BuildError>> From<BuildError> for StartFailure<E> {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::NameTaken { replica, holder } => Self::NameTaken { replica, holder },
            other @ (BuildError::Open(_)
            | BuildError::Name(_)
            | BuildError::KindTwice(_)
            | BuildError::DeliveryKind(_)
            | BuildError::LeaseTooShort { .. }
            | BuildError::Blobs(_)
            | BuildError::Postgres(_)
            | BuildError::Thread(_)) => Self::Other(other.into()),
        }
    }
}

/// Whether whoever has the name ran on this host as a process that is no more. One with our own id
/// was there before us: in a container that is the rule.
fn is_stale(held: &ReplicaState, host: &str, runs: impl FnOnce(u32) -> bool) -> bool {
    let pid = held.heartbeat.pid;
    held.heartbeat.host == host && (pid == std::process::id() || !runs(pid))
}

/// A process that we may not ask for is one that runs.
fn runs(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use longhaul::Timestamp;
    use longhaul::store::Heartbeat;

    use super::*;
    use crate::server::StartError;

    fn holder(host: &str, pid: u32) -> Box<ReplicaState> {
        let beat = Heartbeat {
            replica: "a".to_owned(),
            run: 1,
            role: "all".to_owned(),
            version: String::new(),
            host: host.to_owned(),
            pid,
            kinds: Vec::new(),
            running: 0,
            concurrency: 0,
            silent_after: Duration::from_secs(15),
        };
        let at = Timestamp::from_millis(0);
        Box::new(ReplicaState { heartbeat: beat, started_at: at, seen_at: at, alive: true })
    }

    fn taken(holder: Box<ReplicaState>) -> StartFailure<StartError> {
        StartFailure::NameTaken { replica: "a".to_owned(), holder: Some(holder) }
    }

    #[test]
    fn only_a_process_of_this_host_that_is_no_more_was_left_behind() {
        let judged = |host, pid, runs: bool| is_stale(&holder(host, pid), "here", |_| runs);
        assert!(judged("here", 1, false));
        assert!(!judged("here", 1, true));
        assert!(!judged("there", 1, false), "nobody here can know");
        assert!(judged("here", std::process::id(), true), "it had our id before us");
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
    async fn name_of_a_living_process_is_refused_in_the_end() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for held in [holder("elsewhere", 1), holder(&host, std::process::id())] {
            let start = async || Err::<(), _>(taken(held.clone()));
            let refused = start_when_free(start).await.unwrap_err().to_string();
            let begin = "another replica with the name \"a\" is running (process";
            assert!(refused.starts_with(begin), "{refused}");
        }
    }
}
