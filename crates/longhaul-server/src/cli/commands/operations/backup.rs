//! `longhaul backup`: copies a SQLite database, its blobs and its server key, also while a server runs.

pub(super) mod file_copier;
pub(super) mod manifest;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use longhaul::blob::KEY_MARKERS_NAME;
use longhaul::store::sqlite::Snapshot;
use longhaul_server::config::{Config, Database, Flags, ServerKeySource, parse_bytes};
use serde_json::json;

use self::file_copier::FileCopier;
use self::manifest::{BLOBS, BackupFile, DATABASE, FORMAT, KEY, Manifest};
use super::load_config;
use crate::cli::output::progress_bar::TransferBar;
use crate::cli::{CliError, CliResult, Ui};

/// `longhaul restore --from` brings a backup back. For Postgres, use its own tools.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Directory to create; an existing one must be empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Maximum number of bytes to copy per second
    #[arg(long, value_name = "BYTES", default_value = "50MB/s", value_parser = parse_rate)]
    rate: u64,
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

/// The files of a server.
struct BackupSource {
    database: PathBuf,
    /// `None` if the blobs are not in a local directory.
    blobs: Option<PathBuf>,
    /// `None` if the key is not in the data directory.
    key: Option<PathBuf>,
}

/// A backup that is being made.
struct BackupWriter<'a> {
    source: &'a BackupSource,
    target: &'a Path,
    copier: FileCopier<'a>,
    files: BTreeMap<String, BackupFile>,
}

pub(crate) fn run(args: BackupArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let BackupArgs { to, rate, config, data, database, blobs } = args;
    let config = load_config(config, Flags { data, database, blobs, ..Flags::default() })?;
    let source = BackupSource::of(&config)?;
    create_target(&to)?;
    let bar = TransferBar::new("backup", None, ui.err_is_terminal, ui.err_style);
    let mut writer = BackupWriter {
        source: &source,
        target: &to,
        copier: FileCopier::new(Some(rate), &bar),
        files: BTreeMap::new(),
    };
    let manifest = writer.write(&ui.now().to_string())?;
    drop(bar);
    print_result(ui, &source, &to, &manifest)
}

fn parse_rate(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text.strip_suffix("/s").unwrap_or(text));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "a size such as 50MB or 50MB/s".to_owned())
}

impl BackupSource {
    fn of(config: &Config) -> CliResult<Self> {
        let database = match &config.database {
            Database::Sqlite(path) if path.is_file() => path.clone(),
            Database::Sqlite(path) => {
                return Err(CliError::usage(format!("no database at {}", path.display())));
            }
            Database::Memory => return Err(CliError::usage("a database in memory has no files")),
            Database::Postgres(_) => {
                return Err(CliError::usage_with_hint(
                    "a Postgres database is backed up with its own tools",
                    "use pg_basebackup or pg_dump, and `longhaul restore --fence` after a restore",
                ));
            }
        };
        let key = match &config.server_key {
            ServerKeySource::File(path) if path.parent() == Some(config.data.as_path()) => {
                Some(path.clone()).filter(|path| path.is_file())
            }
            ServerKeySource::File(_) | ServerKeySource::Inline(_) => None,
        };
        Ok(Self { database, blobs: blob_folder(config), key })
    }
}

/// Returns the directory of the blobs, if it is local.
pub(super) fn blob_folder(config: &Config) -> Option<PathBuf> {
    config.blobs.strip_prefix("file:").map(PathBuf::from)
}

/// Creates the directory. An existing one must be empty.
fn create_target(path: &Path) -> CliResult<()> {
    let is_used = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(file_copier::error("use", path)(error)),
    };
    if is_used {
        let message = format!("{} is not empty", path.display());
        return Err(CliError::usage_with_hint(message, "name a new directory for each backup"));
    }
    file_copier::create_folder(path).map_err(file_copier::error("create", path))
}

impl BackupWriter<'_> {
    /// Makes the backup.
    ///
    /// Blobs are copied first, without a snapshot, because that may take long and a snapshot makes the write-ahead log
    /// grow. Then a snapshot is copied, after the blobs that are new in it: the payload of a job that ends in between is
    /// deleted, and the earlier it is copied, the fewer are missing.
    fn write(&mut self, created_at: &str) -> CliResult<Manifest> {
        let existing = self.snapshot()?.1;
        self.copy_blobs(&existing)?;
        let (snapshot, blobs) = self.snapshot()?;
        let missing_blobs = self.copy_blobs(&blobs)?;
        self.delete_other_blobs(&blobs)?;
        self.copy_database(&snapshot)?;
        let origin = snapshot.origin().map_err(anyhow::Error::from)?;
        drop(snapshot);
        // After the snapshot, because the key may be rotated meanwhile: the file keeps former keys.
        if let Some(folder) = &self.source.blobs
            && folder.join(KEY_MARKERS_NAME).is_file()
        {
            self.copy(&folder.join(KEY_MARKERS_NAME), &format!("{BLOBS}/{KEY_MARKERS_NAME}"))?;
        }
        if let Some(key) = &self.source.key {
            self.copy(key, KEY)?;
        }
        let manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: created_at.to_owned(),
            origin,
            files: std::mem::take(&mut self.files).into_values().collect(),
            missing_blobs,
        };
        // Everything else is on disk before, because only the manifest makes the directory a backup.
        self.copier.sync_folders()?;
        manifest.write(self.target)?;
        Ok(manifest)
    }

    /// Returns a snapshot and its blobs; none if the blobs are not in a local directory.
    fn snapshot(&self) -> CliResult<(Snapshot, Vec<String>)> {
        let snapshot = Snapshot::open(&self.source.database).map_err(anyhow::Error::from)?;
        let blobs = match self.source.blobs {
            Some(_) => snapshot.blobs().map_err(anyhow::Error::from)?,
            None => Vec::new(),
        };
        Ok((snapshot, blobs))
    }

    /// Copies blobs that are not copied yet. Returns the paths of those that do not exist.
    fn copy_blobs(&mut self, paths: &[String]) -> CliResult<Vec<String>> {
        let Some(folder) = &self.source.blobs else { return Ok(Vec::new()) };
        let mut missing = Vec::new();
        for path in paths {
            let name = format!("{BLOBS}/{path}");
            if self.files.contains_key(&name) {
                continue;
            }
            let from = folder.join(path);
            match fs::symlink_metadata(&from) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(path.clone()),
                Err(error) => return Err(file_copier::error("read", &from)(error)),
                Ok(_) => match self.copier.copy(&from, &self.target.join(&name)) {
                    Ok(copied) => {
                        self.files.insert(name.clone(), copied.named(name));
                    }
                    Err(_) if !from.exists() => missing.push(path.clone()),
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(missing)
    }

    /// Deletes copies of blobs that the snapshot does not contain any more, because a payload must not outlive its job.
    fn delete_other_blobs(&mut self, paths: &[String]) -> CliResult<()> {
        let kept: BTreeSet<String> = paths.iter().map(|path| format!("{BLOBS}/{path}")).collect();
        let names: Vec<String> = self.files.keys().cloned().collect();
        for name in names.into_iter().filter(|name| !kept.contains(name)) {
            let path = self.target.join(&name);
            fs::remove_file(&path).map_err(file_copier::error("delete", &path))?;
            self.files.remove(&name);
        }
        Ok(())
    }

    fn copy_database(&mut self, snapshot: &Snapshot) -> CliResult<()> {
        let path = self.target.join(DATABASE);
        snapshot.copy_to(&path, |bytes| self.copier.advance(bytes)).map_err(anyhow::Error::from)?;
        let copied = self.copier.digest(&path)?;
        self.files.insert(DATABASE.to_owned(), copied.named(DATABASE.to_owned()));
        Ok(())
    }

    fn copy(&mut self, from: &Path, name: &str) -> CliResult<()> {
        let copied = self.copier.copy(from, &self.target.join(name))?;
        self.files.insert(name.to_owned(), copied.named(name.to_owned()));
        Ok(())
    }
}

fn print_result(
    ui: &mut Ui<'_>,
    source: &BackupSource,
    to: &Path,
    manifest: &Manifest,
) -> CliResult<()> {
    let (files, bytes) = (manifest.files.len(), manifest.bytes());
    let value = json!({
        "to": to, "createdAt": manifest.created_at, "files": files, "bytes": bytes,
        "hasServerKey": source.key.is_some(), "missingBlobs": manifest.missing_blobs,
    });
    let size = indicatif::HumanBytes(bytes);
    ui.print(&value, &format!("backed up: {files} files, {size}, to {}", to.display()))?;
    if source.key.is_some() {
        ui.note("The backup contains the server key, which opens every payload in it: protect it like the server.");
    } else {
        ui.note(
            "The backup does not contain the server key, without which payloads cannot be read.",
        );
    }
    if source.blobs.is_none() {
        ui.note(
            "The backup does not contain payloads and artifacts, which are in another storage.",
        );
    }
    let missing = manifest.missing_blobs.len();
    if missing > 0 {
        ui.note(&format!(
            "{missing} payloads or artifacts were deleted during the backup. A restored job that needs \
             one fails with payload-missing."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_rate_is_a_size_per_second() {
        assert_eq!(parse_rate("50MB/s"), Ok(50_000_000));
        assert_eq!(parse_rate("1MiB"), Ok(1 << 20));
        for wrong in ["", "fast", "0B", "50"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
