//! Checks of the machine: directory, disk space, port, certificate, clock, open files.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use longhaul::Clock;
use longhaul_server::config::Database;
use longhaul_server::listen::{Tls, TlsFiles};
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use super::peer::Peer;

const MIB: u64 = 1024 * 1024;
/// Below it, the server can hardly write.
const FREE_BYTES_MIN: u64 = 64 * MIB;
/// Below it, the operator should free space.
const FREE_BYTES_WANTED: u64 = 1024 * MIB;
/// 2026-01-01, before the first version of this program.
const EARLIEST: Duration = Duration::from_hours(490_896);
/// Tolerated difference of a file's time.
const AHEAD_MAX: Duration = Duration::from_mins(1);

pub(super) fn data_dir(data: &Path) -> Finding {
    const CHECK: &str = "data directory";
    let shown = data.display();
    let existing = existing_part(data);
    if let Err(errno) = access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        let detail = format!("{} is not writable: {errno}", existing.display());
        return Finding::bad(
            CHECK,
            detail,
            "make this user its owner, or choose another directory with --data",
        );
    }
    if existing != data {
        return Finding::good(CHECK, format!("{shown} does not exist yet and can be created"));
    }
    match std::fs::metadata(data) {
        Ok(found) if !found.is_dir() => Finding::bad(
            CHECK,
            format!("{shown} is not a directory"),
            "choose another one with --data",
        ),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => Finding::doubtful(
            CHECK,
            format!("{shown} is readable by other users of this machine"),
            format!("chmod 700 {shown}"),
        ),
        Ok(_) => Finding::good(CHECK, format!("{shown} is writable")),
        Err(error) => Finding::bad(CHECK, format!("{shown}: {error}"), "check its permissions"),
    }
}

/// Returns the directory, or its nearest existing ancestor.
fn existing_part(folder: &Path) -> &Path {
    let found = folder.ancestors().find(|part| !part.as_os_str().is_empty() && part.exists());
    found.unwrap_or(Path::new("."))
}

pub(super) fn free_space(data: &Path) -> Finding {
    const CHECK: &str = "free space";
    let space = match statvfs(existing_part(data)) {
        Ok(space) => space.f_bavail.saturating_mul(space.f_frsize),
        Err(errno) => return Finding::bad(CHECK, errno.to_string(), "check the disk"),
    };
    let detail = format!("{} MiB", space / MIB);
    if space < FREE_BYTES_MIN {
        return Finding::bad(
            CHECK,
            detail,
            "free disk space: submissions will fail with 503 storage-full",
        );
    }
    if space < FREE_BYTES_WANTED {
        return Finding::doubtful(
            CHECK,
            detail,
            "free disk space before submissions fail with 503",
        );
    }
    Finding::good(CHECK, detail)
}

pub(super) fn port(listen: SocketAddr, peer: Peer) -> Finding {
    const CHECK: &str = "address";
    match peer {
        Peer::Ready => Finding::good(CHECK, format!("a server is ready at {listen}")),
        Peer::Unready(status) => Finding::bad(
            CHECK,
            format!("the server at {listen} is not ready: it responds with {status}"),
            "see its log",
        ),
        Peer::Foreign => Finding::bad(
            CHECK,
            format!("another program uses {listen}"),
            "stop it, or choose another address with --listen",
        ),
        Peer::None => match TcpListener::bind(listen) {
            Ok(_) => Finding::good(CHECK, format!("{listen} is free")),
            Err(error) => Finding::bad(
                CHECK,
                format!("cannot use {listen}: {error}"),
                "choose another address with --listen",
            ),
        },
    }
}

pub(super) fn certificate(files: &TlsFiles) -> Finding {
    const CHECK: &str = "certificate";
    let clock = Clock::system();
    let now = clock.now();
    match Tls::load(files.clone(), clock).map(|tls| tls.expires_at()) {
        Ok(Some(expires_at)) if expires_at <= now => Finding::doubtful(
            CHECK,
            format!("expired at {expires_at}"),
            "replace it: clients will reject it",
        ),
        Ok(Some(expires_at)) => Finding::good(CHECK, format!("valid until {expires_at}")),
        Ok(None) => Finding::good(CHECK, "OK"),
        Err(error) => Finding::bad(CHECK, error.to_string(), "check tls.cert and tls.key"),
    }
}

/// Leases and retention depend on this clock.
pub(super) fn clock(database: &Database) -> Finding {
    const CHECK: &str = "clock";
    const ADVICE: &str = "set it, for example with NTP: leases and retention depend on it";
    let now = SystemTime::now();
    if now.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since < EARLIEST) {
        return Finding::bad(CHECK, "earlier than the first version of this program", ADVICE);
    }
    let written = match database {
        Database::Sqlite(path) => std::fs::metadata(path).and_then(|file| file.modified()).ok(),
        Database::Memory | Database::Postgres(_) => None,
    };
    match written.and_then(|written| written.duration_since(now).ok()) {
        Some(ahead) if ahead > AHEAD_MAX => {
            let detail = format!("the database was written {} s in the future", ahead.as_secs());
            Finding::bad(CHECK, detail, ADVICE)
        }
        Some(_) | None => Finding::good(CHECK, "OK"),
    }
}

pub(super) fn open_files(connections_max: usize) -> Finding {
    const CHECK: &str = "open files";
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let detail = format!("{allowed} allowed, {connections_max} connections configured");
    if allowed < connections_max as u64 {
        return Finding::doubtful(CHECK, detail, "raise `ulimit -Hn` or lower connections_max");
    }
    Finding::good(CHECK, detail)
}

#[cfg(test)]
mod tests {
    use super::super::finding::CheckVerdict;
    use super::*;

    #[test]
    fn missing_certificate_is_bad() {
        let files = TlsFiles { cert: "/nowhere/a.pem".into(), key: "/nowhere/b.pem".into() };
        let finding = certificate(&files);
        assert_eq!(finding.verdict, CheckVerdict::Bad);
        assert!(finding.detail.contains("/nowhere/a.pem"), "{finding:?}");
    }

    #[test]
    fn data_directory_readable_by_others_is_doubtful() {
        let folder = tempfile::tempdir().unwrap();
        let open = |mode| {
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
            data_dir(folder.path()).verdict
        };
        assert_eq!((open(0o755), open(0o700)), (CheckVerdict::Doubtful, CheckVerdict::Good));
    }

    #[test]
    fn missing_data_directory_is_checked_by_its_ancestor() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("a/b");
        assert_eq!(existing_part(&missing), folder.path());
        assert_eq!(data_dir(&missing).verdict, CheckVerdict::Good);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(data_dir(&file).verdict, CheckVerdict::Bad);
    }

    #[test]
    fn used_port_is_bad_unless_longhaul_uses_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert_eq!(port(address, Peer::None).verdict, CheckVerdict::Bad);
        assert_eq!(port(address, Peer::Foreign).verdict, CheckVerdict::Bad);
        assert_eq!(port(address, Peer::Ready).verdict, CheckVerdict::Good);
    }
}
