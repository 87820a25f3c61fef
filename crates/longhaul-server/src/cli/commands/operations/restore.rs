//! `longhaul restore`: brings a backup back and fences the workers from before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use longhaul::Clock;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite;
use longhaul_server::config::{Config, Database, Flags, ServerKeySource};
use longhaul_server::server::StartError;
use serde_json::json;

use super::backup::blob_folder;
use super::backup::file_copier::{FileCopier, error};
use super::backup::manifest::{BackupFile, FileRole, Manifest};
use super::load_config;
use crate::cli::output::progress_bar::TransferBar;
use crate::cli::{CliError, CliResult, Ui};

/// Stop the server first. Workers that still run jobs from before the restore can write nothing any more, and their jobs
/// are released without a charged attempt.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Directory of the backup
    #[arg(long, value_name = "DIR", required_unless_present = "fence")]
    from: Option<PathBuf>,
    /// Only fence the workers from before, in a database that another tool has restored
    #[arg(long, conflicts_with = "from")]
    fence: bool,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of `serve`
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// Database of `serve`
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Payload storage of `serve`
    #[arg(long, value_name = "URL")]
    blobs: Option<String>,
}

/// The places of a server's files.
struct RestoreTarget {
    database: PathBuf,
    /// `None` if the blobs are not in a local directory.
    blobs: Option<PathBuf>,
    /// `None` if the key is not in a file.
    key: Option<PathBuf>,
}

pub(crate) async fn run(args: RestoreArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let RestoreArgs { from, fence: _, config, data, database, blobs } = args;
    let config = load_config(config, Flags { data, database, blobs, ..Flags::default() })?;
    match from {
        Some(from) => restore(&from, &config, ui),
        None => fence(&config.database, ui).await,
    }
}

/// Fences the workers of a database that another tool has restored.
async fn fence(database: &Database, ui: &mut Ui<'_>) -> CliResult<()> {
    let released = match database {
        Database::Memory => return Err(CliError::usage("a database in memory is never restored")),
        Database::Sqlite(path) if !path.is_file() => {
            return Err(CliError::usage(format!("no database at {}", path.display())));
        }
        Database::Sqlite(path) => {
            sqlite::fence(path, &Clock::system()).map_err(anyhow::Error::from)?
        }
        Database::Postgres(url) => {
            let store = PostgresStore::open(url.expose(), Clock::system())
                .await
                .map_err(|error| anyhow::Error::from(StartError::postgres(error)))?;
            store.fence().await.map_err(anyhow::Error::from)?
        }
    };
    let line = format!("fenced: {released} running jobs returned to their queues");
    ui.print(&json!({"releasedJobs": released}), &line)
}

fn restore(from: &Path, config: &Config, ui: &mut Ui<'_>) -> CliResult<()> {
    let manifest = Manifest::read(from)?;
    let target = RestoreTarget::of(config)?;
    let has_key = target.check(from, &manifest)?;
    let bar = TransferBar::new("restore", None, ui.err_is_terminal, ui.err_style);
    let mut copier = FileCopier::new(None, &bar);
    // Before anything is written.
    for file in &manifest.files {
        verify(&mut copier, from, file)?;
    }
    // The database first: it cannot be opened until it is fenced, so that a server does not start with a part of a
    // backup.
    let (database, others): (Vec<_>, Vec<_>) =
        manifest.files.iter().partition(|file| file.role() == Some(FileRole::Database));
    for file in database.into_iter().chain(others) {
        let Some(to) = target.path_of(file, has_key) else { continue };
        let restored = copier.copy(&from.join(&file.path), &to)?;
        if (restored.bytes, &restored.sha256) != (file.bytes, &file.sha256) {
            return Err(changed(&from.join(&file.path)));
        }
    }
    copier.sync_folders()?;
    drop(bar);
    let released =
        sqlite::fence(&target.database, &Clock::system()).map_err(anyhow::Error::from)?;
    print_result(ui, &manifest, &target, released)
}

impl RestoreTarget {
    fn of(config: &Config) -> CliResult<Self> {
        let Database::Sqlite(database) = &config.database else {
            return Err(CliError::usage("a backup is restored to a SQLite file"));
        };
        let key = match &config.server_key {
            ServerKeySource::File(path) => Some(path.clone()),
            ServerKeySource::Inline(_) => None,
        };
        Ok(Self { database: database.clone(), blobs: blob_folder(config), key })
    }

    /// Checks that no file would be replaced or mixed with others. Returns whether the target has the server key of the
    /// backup already.
    fn check(&self, from: &Path, manifest: &Manifest) -> CliResult<bool> {
        for suffix in ["", "-wal", "-journal"] {
            let mut path = self.database.as_os_str().to_owned();
            path.push(suffix);
            if Path::new(&path).symlink_metadata().is_ok() {
                return Err(in_use(Path::new(&path), "already exists"));
            }
        }
        let has_blobs =
            manifest.files.iter().any(|file| matches!(file.role(), Some(FileRole::Blob(_))));
        match &self.blobs {
            Some(folder) if has_blobs && !is_empty(folder)? => {
                return Err(in_use(folder, "is not empty"));
            }
            None if has_blobs => {
                return Err(CliError::usage_with_hint(
                    "the backup contains payloads, and the configured storage is not a directory",
                    "restore with --blobs file:PATH",
                ));
            }
            Some(_) | None => {}
        }
        let key = manifest.files.iter().find(|file| file.role() == Some(FileRole::ServerKey));
        let (Some(key), Some(path)) = (key, &self.key) else { return Ok(false) };
        let existing = match fs::read(path) {
            Ok(existing) => existing,
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(reason) => return Err(error("read", path)(reason)),
        };
        let ours = from.join(&key.path);
        if existing == fs::read(&ours).map_err(error("read", &ours))? {
            return Ok(true);
        }
        Err(in_use(path, "is another server key than that of the backup"))
    }

    /// Returns the place of a file; `None` if it is not needed.
    fn path_of(&self, file: &BackupFile, has_key: bool) -> Option<PathBuf> {
        match file.role()? {
            FileRole::Database => Some(self.database.clone()),
            FileRole::ServerKey if has_key => None,
            FileRole::ServerKey => self.key.clone(),
            FileRole::Blob(path) => self.blobs.as_ref().map(|folder| folder.join(path)),
        }
    }
}

fn is_empty(folder: &Path) -> CliResult<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(reason) => Err(error("read", folder)(reason)),
    }
}

fn in_use(path: &Path, problem: &str) -> CliError {
    let message = format!("{} {problem}", path.display());
    CliError::usage_with_hint(message, "restore to another directory with --data")
}

/// Checks that a file is as it was backed up.
fn verify(copier: &mut FileCopier<'_>, from: &Path, file: &BackupFile) -> CliResult<()> {
    let path = from.join(&file.path);
    let found = copier.digest(&path)?;
    if (found.bytes, &found.sha256) == (file.bytes, &file.sha256) {
        Ok(())
    } else {
        Err(changed(&path))
    }
}

fn changed(path: &Path) -> CliError {
    CliError::Other(anyhow::anyhow!(
        "{} has changed since the backup: its size or SHA-256 differs from the manifest",
        path.display()
    ))
}

fn print_result(
    ui: &mut Ui<'_>,
    manifest: &Manifest,
    target: &RestoreTarget,
    released: u64,
) -> CliResult<()> {
    let has_key = manifest.files.iter().any(|file| file.role() == Some(FileRole::ServerKey));
    let value = json!({
        "database": target.database, "createdAt": manifest.created_at,
        "files": manifest.files.len(), "bytes": manifest.bytes(),
        "hasServerKey": has_key, "missingBlobs": manifest.missing_blobs,
        "releasedJobs": released,
    });
    let line = format!(
        "restored: {} as of {}, {released} running jobs returned to their queues",
        target.database.display(),
        manifest.created_at,
    );
    ui.print(&value, &line)?;
    match &target.key {
        Some(path) if !has_key => ui.note(&format!(
            "The backup does not contain the server key: put it to {} before the first start.",
            path.display()
        )),
        Some(_) => {}
        None => ui.note("The server key is the configured one: it must be that of the backup."),
    }
    Ok(())
}
