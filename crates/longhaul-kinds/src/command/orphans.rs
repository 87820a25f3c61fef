//! Orphaned programs of a killed server.

use std::io;
use std::path::Path;

/// Kills every process that belongs to a folder in `work_root`, and returns when they have exited.
///
/// A folder outlives its programs only if their server was killed. So daemons that an earlier job started
/// on purpose, whose folder was deleted, are not killed.
#[cfg(target_os = "linux")]
pub(super) fn kill(work_root: &Path) -> io::Result<()> {
    linux::kill(work_root)
}

/// Does nothing, because only Linux exposes the environment of a process. Programs run until their pipes break.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
pub(super) fn kill(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{HashMap, HashSet};
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::time::Duration;
    use std::{fs, io, thread};

    use rustix::process::{Pid, Signal, getpid, kill_process};

    /// 5 s in total. Processes that remain then hang in the kernel or may not be killed.
    const ROUNDS_MAX: u32 = 500;
    const ROUND_PAUSE: Duration = Duration::from_millis(10);

    /// Empty scans in a row, because a process that forks and exits, or that is inside of an exec, can be
    /// missed by one scan.
    const EMPTY_SCANS: u32 = 2;

    /// Device and inode of a folder, because paths differ inside of containers.
    type Identity = (u64, u64);

    pub(super) fn kill(work_root: &Path) -> io::Result<()> {
        let folders = folders(work_root)?;
        if folders.is_empty() {
            return Ok(());
        }
        let (mut killed, mut left, mut quiet) = (HashSet::new(), 0, 0);
        for _ in 0..ROUNDS_MAX {
            let found = processes(&folders)?;
            left = found.len();
            quiet = if found.is_empty() { quiet + 1 } else { 0 };
            if quiet == EMPTY_SCANS {
                break;
            }
            for &pid in &found {
                // Fails if the process has exited.
                kill_process(pid, Signal::KILL).ok();
            }
            killed.extend(found);
            if quiet == 0 {
                thread::sleep(ROUND_PAUSE);
            }
        }
        if !killed.is_empty() {
            let killed = killed.len();
            tracing::warn!(killed, left, "killed orphaned processes of an earlier server");
        }
        Ok(())
    }

    fn folders(work_root: &Path) -> io::Result<HashMap<OsString, Identity>> {
        let entries = match fs::read_dir(work_root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
            entries => entries?,
        };
        let known = |entry: fs::DirEntry| Ok((entry.file_name(), identity(&entry.metadata()?)));
        entries.map(|entry| entry.and_then(known)).collect()
    }

    fn identity(metadata: &fs::Metadata) -> Identity {
        (metadata.dev(), metadata.ino())
    }

    /// Returns the processes with a `TMPDIR` in these folders, except this one and those that are not
    /// readable.
    fn processes(folders: &HashMap<OsString, Identity>) -> io::Result<Vec<Pid>> {
        let pid = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
        let others =
            fs::read_dir("/proc")?.flatten().filter_map(pid).filter(|&pid| pid != getpid());
        Ok(others.filter(|&pid| is_in(pid, folders)).collect())
    }

    fn is_in(pid: Pid, folders: &HashMap<OsString, Identity>) -> bool {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let Some(tmpdir) = tmpdir(&process) else { return false };
        tmpdir.ancestors().any(|path| {
            let work_dir = path.file_name().and_then(|name| folders.get(name));
            let seen =
                || fs::metadata(process.join("root").join(path.strip_prefix("/").ok()?)).ok();
            work_dir.is_some_and(|work_dir| seen().is_some_and(|seen| identity(&seen) == *work_dir))
        })
    }

    /// Reads the environment of any thread, because the first one may have exited and then has none.
    fn tmpdir(process: &Path) -> Option<PathBuf> {
        let threads = fs::read_dir(process.join("task")).ok()?.flatten();
        let environ = threads
            .filter_map(|thread| fs::read(thread.path().join("environ")).ok())
            .find(|environ| !environ.is_empty())?;
        let value = environ.split(|&byte| byte == 0).find_map(|it| it.strip_prefix(b"TMPDIR="))?;
        Some(OsStr::from_bytes(value).into())
    }
}
