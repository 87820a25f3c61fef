//! The SQLite store on a disk that outlives its processes.

use std::path::PathBuf;
use std::sync::Arc;

use longhaul::clock::Clock;
use longhaul::store::Store;
use longhaul::store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::simulation::StoreFactory;

pub(crate) struct OnDisk {
    /// The last folder holds the database; earlier ones are leftovers of killed processes.
    folders: Vec<TempDir>,
    /// Files that survive a kill.
    left: &'static [&'static str],
}

impl OnDisk {
    pub(crate) fn new() -> Self {
        let left = &["jobs.db", "jobs.db-wal", "jobs.db.open"];
        Self { folders: vec![tempfile::tempdir().unwrap()], left }
    }

    /// Simulates a disk that reports a sync without doing it, so that the checker must catch the loss.
    pub(crate) fn that_loses_its_log() -> Self {
        Self { left: &["jobs.db", "jobs.db.open"], ..Self::new() }
    }

    fn path(&self) -> PathBuf {
        self.folders.last().unwrap().path().join("jobs.db")
    }
}

impl StoreFactory for OnDisk {
    fn open(&mut self, clock: &Clock) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.path(), clock.clone()).unwrap())
    }

    fn restart(&mut self, store: Arc<dyn Store>, clock: &Clock, kill: bool) -> Arc<dyn Store> {
        if kill {
            // Copies the files as they are now, because a killed process does not write the data
            // that a clean shutdown would still write.
            let folder = tempfile::tempdir().unwrap();
            for file in self.left {
                let from = self.path().with_file_name(file);
                if from.exists() {
                    std::fs::copy(from, folder.path().join(file)).unwrap();
                }
            }
            self.folders.push(folder);
        }
        drop(store);
        self.open(clock)
    }

    fn find_orphans(&mut self) -> Result<(), String> {
        let database = rusqlite::Connection::open(self.path()).unwrap();
        let names = "SELECT name FROM sqlite_master WHERE type = 'table'";
        let mut names = database.prepare(names).unwrap();
        let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
        // Ids of deleted jobs are kept on purpose, and so are rows without a job.
        let kept = ["tombstones", "queues", "usage", "origin"];
        for table in names.map(Result::unwrap) {
            if kept.contains(&table.as_str()) || table.starts_with("sqlite_") {
                continue;
            }
            // Limit counters outlive jobs, but must be zero once all jobs are deleted.
            let filter = if table == "limit_counters" { "WHERE running <> 0" } else { "" };
            let count = format!("SELECT count(*) FROM {table} {filter}");
            let rows: i64 = database.query_row(&count, [], |row| row.get(0)).unwrap();
            if rows > 0 {
                return Err(format!("{rows} rows are left in {table}"));
            }
        }
        Ok(())
    }
}
