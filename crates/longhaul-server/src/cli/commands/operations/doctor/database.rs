//! The database: whether this program may use it and whether it is sound.

use longhaul::store::postgres::{self, RowSecurity};
use longhaul::store::sqlite::{self, OpenError};
use longhaul_server::config::Database;

use super::finding::Finding;
use super::peer::Peer;

pub(super) fn version() -> Finding {
    match sqlite::version() {
        Ok(version) => Finding::good("SQLite", version),
        Err(error) => Finding::bad("SQLite", error.to_string(), "rebuild this program"),
    }
}

/// Looks at the database that is configured.
pub(super) async fn database(database: &Database, peer: Peer) -> Vec<Finding> {
    let Database::Postgres(url) = database else { return vec![file(database, peer)] };
    match postgres::inspect(url.expose()).await {
        Ok(found) => vec![Finding::good("database", found.summary), wall(&found.row_security)],
        Err(error) => {
            vec![Finding::bad("database", error.to_string(), "a server would not start on it")]
        }
    }
}

fn wall(wall: &RowSecurity) -> Finding {
    const CHECK: &str = "tenants";
    match wall {
        RowSecurity::Active => Finding::good(CHECK, wall.to_string()),
        RowSecurity::Missing(commands) => Finding::doubtful(
            CHECK,
            "only the server keeps them apart, the database does not: its user may not set up \
             row-level security",
            format!("let an administrator run, and start again: {};", commands.join("; ")),
        ),
        RowSecurity::Unsupported(_) => Finding::doubtful(
            CHECK,
            wall.to_string(),
            "a server would start and keep them apart, without a second wall in the database",
        ),
    }
}

/// Looks through the file; one that a server has open is that server's business.
fn file(database: &Database, peer: Peer) -> Finding {
    const CHECK: &str = "database";
    let path = match database {
        Database::Memory => return Finding::good(CHECK, "in memory: gone with the process"),
        Database::Postgres(_) => return Finding::good(CHECK, "on a server of its own"),
        Database::Sqlite(path) => path,
    };
    let shown = path.display();
    if !path.exists() {
        return Finding::good(CHECK, format!("{shown} is not there yet and will be created"));
    }
    match (sqlite::inspect(path), peer) {
        (Ok(()), _) => Finding::good(CHECK, format!("{shown} is sound and nobody has it open")),
        (Err(OpenError::Locked { .. }), Peer::Ready) => {
            Finding::good(CHECK, format!("{shown} is open in the server that is ready"))
        }
        (Err(error @ OpenError::Locked { .. }), _) => Finding::doubtful(
            CHECK,
            error.to_string(),
            "a server may have it that listens elsewhere: name its address with --listen",
        ),
        (Err(error), _) => Finding::bad(CHECK, error.to_string(), "do not start a server on it"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use longhaul::Clock;
    use longhaul::store::sqlite::SqliteStore;

    fn verdict(path: &std::path::Path, peer: Peer) -> Verdict {
        file(&Database::Sqlite(path.to_owned()), peer).verdict
    }

    #[test]
    fn database_is_sound_held_or_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("longhaul.db");
        assert_eq!(verdict(&path, Peer::None), Verdict::Good, "not there yet");
        let store = SqliteStore::open(&path, Clock::system()).unwrap();
        assert_eq!(verdict(&path, Peer::Ready), Verdict::Good, "held by the server");
        assert_eq!(verdict(&path, Peer::None), Verdict::Doubtful, "held by somebody");
        drop(store);
        assert_eq!(verdict(&path, Peer::None), Verdict::Good, "sound");
        std::fs::write(&path, "this was a database").unwrap();
        assert_eq!(verdict(&path, Peer::None), Verdict::Bad, "damaged");
    }
}
