//! Checks of the database.

use longhaul::store::postgres::{self, RowSecurity};
use longhaul::store::sqlite::{self, OpenError, Snapshot};
use longhaul_server::config::Database;
use longhaul_server::server::StartError;

use super::finding::Finding;
use super::peer::Peer;

pub(super) fn version() -> Finding {
    match sqlite::version() {
        Ok(version) => Finding::good("SQLite", version),
        Err(error) => Finding::bad("SQLite", error.to_string(), "rebuild this program"),
    }
}

pub(super) async fn database(database: &Database, peer: Peer) -> Vec<Finding> {
    let Database::Postgres(url) = database else { return vec![file(database, peer)] };
    match postgres::inspect(url.expose()).await {
        Ok(found) => {
            let mut findings =
                vec![Finding::good("database", found.summary), wall(&found.row_security)];
            findings.extend(failover(found.asynchronous_standbys));
            findings
        }
        Err(error) => {
            let error = StartError::postgres(error);
            vec![Finding::bad("database", error.to_string(), "a server cannot start with it")]
        }
    }
}

/// Checks that a failover loses nothing, if there is a standby.
fn failover(asynchronous_standbys: u64) -> Option<Finding> {
    (asynchronous_standbys > 0).then(|| {
        Finding::doubtful(
            "failover",
            format!(
                "no commit waits for a standby ({asynchronous_standbys} connected): a failover may lose acknowledged \
                 jobs"
            ),
            "set synchronous_standby_names on the database server",
        )
    })
}

fn wall(wall: &RowSecurity) -> Finding {
    const CHECK: &str = "tenants";
    match wall {
        RowSecurity::Active => Finding::good(CHECK, wall.to_string()),
        RowSecurity::Missing(commands) => Finding::doubtful(
            CHECK,
            "isolated by the server, but not by row-level security: the database user cannot set it up",
            format!(
                "as an administrator run the following, then restart: {};",
                commands.join("; ")
            ),
        ),
        RowSecurity::Unsupported(_) => Finding::doubtful(
            CHECK,
            wall.to_string(),
            "a server can start and isolates tenants, but without row-level security",
        ),
    }
}

/// Checks the file, unless a running server has it open.
fn file(database: &Database, peer: Peer) -> Finding {
    const CHECK: &str = "database";
    let path = match database {
        Database::Memory => return Finding::good(CHECK, "in memory, lost when the process ends"),
        Database::Postgres(_) => return Finding::good(CHECK, "Postgres"),
        Database::Sqlite(path) => path,
    };
    let shown = path.display();
    if !path.exists() {
        return Finding::good(CHECK, format!("{shown} does not exist yet and will be created"));
    }
    match (sqlite::inspect(path), peer) {
        (Ok(()), _) => Finding::good(CHECK, format!("{shown} is intact and not in use")),
        (Err(OpenError::Locked { .. }), Peer::Ready) => {
            match Snapshot::open(path).and_then(|snapshot| snapshot.check()) {
                Ok(()) => Finding::good(
                    CHECK,
                    format!("{shown} is intact and in use by the running server"),
                ),
                Err(error) => {
                    Finding::bad(CHECK, error.to_string(), "stop the server and restore a backup")
                }
            }
        }
        (Err(error @ OpenError::Locked { .. }), _) => Finding::doubtful(
            CHECK,
            error.to_string(),
            "a server on another address may use it: set its address with --listen",
        ),
        (Err(error), _) => Finding::bad(CHECK, error.to_string(), "do not start a server with it"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::CheckVerdict;
    use super::*;
    use longhaul::Clock;
    use longhaul::store::sqlite::SqliteStore;

    fn verdict(path: &std::path::Path, peer: Peer) -> CheckVerdict {
        file(&Database::Sqlite(path.to_owned()), peer).verdict
    }

    #[test]
    fn database_file_is_intact_locked_or_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("longhaul.db");
        assert_eq!(verdict(&path, Peer::None), CheckVerdict::Good, "missing");
        let store = SqliteStore::open(&path, Clock::system()).unwrap();
        assert_eq!(verdict(&path, Peer::Ready), CheckVerdict::Good, "locked by the server");
        assert_eq!(verdict(&path, Peer::None), CheckVerdict::Doubtful, "locked by another process");
        let intact = std::fs::read(&path).unwrap();
        let page = 4096;
        let damaged = [&intact[..page], &vec![0xff; intact.len() - page]].concat();
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(verdict(&path, Peer::Ready), CheckVerdict::Bad, "damaged under the server");
        std::fs::write(&path, intact).unwrap();
        drop(store);
        assert_eq!(verdict(&path, Peer::None), CheckVerdict::Good, "intact");
        std::fs::write(&path, "this was a database").unwrap();
        assert_eq!(verdict(&path, Peer::None), CheckVerdict::Bad, "damaged");
    }
}
