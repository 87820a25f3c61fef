//! Identity of this process, and whether an earlier one of this host has ended.
//!
//! A process id alone is no proof: another process may have it by now, and in containers the same ids are in use side by
//! side. So a heartbeat also names the boot of the machine, the process id namespace and the start of its process. If one
//! of them is unknown, for example because there is no `/proc`, nothing is concluded.

use std::fs;
use std::sync::LazyLock;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::ctx::work_dir::host;
use crate::store::Heartbeat;

/// Boot, process id namespace and start of this process; empty if one is unknown.
pub(super) static IDENTITY: LazyLock<String> = LazyLock::new(|| {
    let started = ProcessStat::read(std::process::id()).map(|stat| stat.started);
    let identity = |(prefix, started)| format!("{prefix}{started}");
    namespace().zip(started).map(identity).unwrap_or_default()
});

/// Returns true if the process of a heartbeat is known to have ended.
pub(super) fn has_ended(heartbeat: &Heartbeat) -> bool {
    let Heartbeat { host: its_host, pid, process, .. } = heartbeat;
    let its_start = namespace().and_then(|prefix| process.strip_prefix(&prefix)?.parse().ok());
    let Some(its_start) = its_start.filter(|_: &u64| *its_host == host()) else { return false };
    // Another process may have its id by now.
    let is_other = |stat: ProcessStat| stat.is_dead || stat.started != its_start;
    is_free(*pid) || ProcessStat::read(*pid).is_some_and(is_other)
}

/// Returns true if no process has this id, not even one of another user that `/proc` hides.
fn is_free(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Returns the boot and the process id namespace of this process.
fn namespace() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // For example `pid:[4026531836]`.
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}/", boot.trim(), namespace.to_str()?))
}

/// State of a process.
struct ProcessStat {
    /// True if all of its threads have ended and its parent does not know yet.
    is_dead: bool,
    /// Start in clock ticks since the boot.
    started: u64,
}

impl ProcessStat {
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Field 2 is the name in parentheses, which may contain spaces and parentheses.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        // Fields 3, 20 and 22.
        let (state, threads, started) = (fields.next()?, fields.nth(16)?, fields.nth(1)?);
        Some(Self { is_dead: state == "Z" && threads == "1", started: started.parse().ok()? })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    fn heartbeat(pid: u32, process: String) -> Heartbeat {
        Heartbeat {
            replica: "a".to_owned(),
            run: 1,
            role: "all".to_owned(),
            version: String::new(),
            host: host(),
            pid,
            process,
            kinds: Vec::new(),
            running: 0,
            concurrency: 0,
            silent_after: Duration::from_secs(15),
        }
    }

    #[test]
    fn running_process_has_not_ended() {
        assert!(!IDENTITY.is_empty());
        assert!(!has_ended(&heartbeat(std::process::id(), IDENTITY.clone())));
    }

    #[test]
    fn killed_process_has_ended() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let started = ProcessStat::read(child.id()).unwrap().started;
        let process = format!("{}{started}", namespace().unwrap());
        let heartbeat = heartbeat(child.id(), process);
        assert!(!has_ended(&heartbeat));
        child.kill().unwrap();
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(has_ended(&heartbeat), "before its parent has fetched its status");
        child.wait().unwrap();
        assert!(has_ended(&heartbeat));
    }

    #[test]
    fn process_whose_id_another_one_has_now_has_ended() {
        let earlier = format!("{}{}", namespace().unwrap(), 1);
        assert!(has_ended(&heartbeat(std::process::id(), earlier)));
    }

    #[test]
    fn nothing_is_concluded_about_processes_of_other_hosts_boots_and_containers() {
        let id = IDENTITY.clone();
        let (namespace, start) = id.rsplit_once('/').unwrap();
        let (boot, namespace) = namespace.split_once('/').unwrap();
        let gone = u32::try_from(i32::MAX).unwrap();
        assert!(has_ended(&heartbeat(gone, id.clone())));
        let unknown = [
            String::new(),
            format!("{boot}/pid:[1]/{start}"),
            format!("00000000-0000-0000-0000-000000000000/{namespace}/{start}"),
            format!("{boot}/{namespace}/"),
        ];
        for process in unknown {
            assert!(!has_ended(&heartbeat(gone, process.clone())), "{process}");
        }
        assert!(!has_ended(&Heartbeat { host: "elsewhere".to_owned(), ..heartbeat(gone, id) }));
    }
}
