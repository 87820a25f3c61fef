//! Manifest of a backup. Written last: a directory without one is not a backup.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use longhaul::blob::{BlobPath, KEY_MARKERS_NAME};
use serde::{Deserialize, Serialize};

use super::file_copier::{FILE_MODE, error};
use crate::cli::{CliError, CliResult};

/// Version of the format.
pub(crate) const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
/// Names in a backup, whatever the names of the server's files are.
pub(crate) const DATABASE: &str = "longhaul.db";
pub(crate) const KEY: &str = "server.key";
pub(crate) const BLOBS: &str = "blobs";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    /// Version of the program.
    pub(crate) version: String,
    pub(crate) created_at: String,
    /// Identity of the database file.
    pub(crate) origin: String,
    pub(crate) files: Vec<BackupFile>,
    /// Blobs that the database refers to, but that were deleted before they could be copied.
    pub(crate) missing_blobs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackupFile {
    /// Relative to the directory of the backup.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Lower-case hexadecimal.
    pub(crate) sha256: String,
}

/// The part of a server that a file belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileRole<'a> {
    Database,
    ServerKey,
    /// A blob or the key markers, by its path in the blob store.
    Blob(&'a str),
}

impl BackupFile {
    /// Returns the role of the file; `None` for a name that no backup has, for example one that leads elsewhere.
    pub(crate) fn role(&self) -> Option<FileRole<'_>> {
        match self.path.as_str() {
            DATABASE => Some(FileRole::Database),
            KEY => Some(FileRole::ServerKey),
            path => {
                let path = path.strip_prefix(BLOBS)?.strip_prefix('/')?;
                let is_blob = path == KEY_MARKERS_NAME || path.parse::<BlobPath>().is_ok();
                is_blob.then_some(FileRole::Blob(path))
            }
        }
    }
}

impl Manifest {
    /// Returns the size of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn write(&self, folder: &Path) -> CliResult<()> {
        let path = folder.join(MANIFEST);
        let write = || {
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            let mut options = File::options();
            let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(&path)?;
            file.write_all(&text)?;
            file.sync_all()?;
            File::open(folder)?.sync_all()
        };
        write().map_err(error("write", &path))
    }

    /// Reads the manifest of a backup and checks that each of its names is one that backups have.
    pub(crate) fn read(folder: &Path) -> CliResult<Self> {
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).map_err(|reason| {
            let message = format!(
                "{} is not a complete backup: cannot read {MANIFEST}: {reason}",
                folder.display()
            );
            CliError::usage(message)
        })?;
        let unusable = |reason: String| {
            CliError::Other(anyhow::anyhow!("cannot use {}: {reason}", path.display()))
        };
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(unusable(format!(
                "its format is {}, and this program reads format {FORMAT}",
                manifest.format
            )));
        }
        if let Some(file) = manifest.files.iter().find(|file| file.role().is_none()) {
            return Err(unusable(format!("no backup has a file {:?}", file.path)));
        }
        if !manifest.files.iter().any(|file| file.role() == Some(FileRole::Database)) {
            return Err(unusable("it has no database".to_owned()));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_backup_cannot_lead_elsewhere() {
        let blob = "acme/01K9XG83KB000FET3YVZ75BXD7/00000000000000000000000000000001";
        let name = format!("blobs/{blob}");
        let role = |path: &str| {
            let file = BackupFile { path: path.to_owned(), bytes: 0, sha256: String::new() };
            file.role().map(|role| format!("{role:?}"))
        };
        assert_eq!(role("longhaul.db").as_deref(), Some("Database"));
        assert_eq!(role("server.key").as_deref(), Some("ServerKey"));
        assert_eq!(role(&name), Some(format!("Blob({blob:?})")));
        assert_eq!(role("blobs/_server-keys").as_deref(), Some("Blob(\"_server-keys\")"));
        for path in
            ["", "../longhaul.db", "/etc/passwd", "blobs", "blobs/../server.key", "blobs//x"]
        {
            assert_eq!(role(path), None, "{path}");
        }
    }

    #[test]
    fn manifest_of_another_format_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = |format| Manifest {
            format,
            version: "0.1.0".to_owned(),
            created_at: "2026-11-15T08:00:00.000Z".to_owned(),
            origin: "o".to_owned(),
            files: vec![BackupFile {
                path: DATABASE.to_owned(),
                bytes: 1,
                sha256: "00".to_owned(),
            }],
            missing_blobs: Vec::new(),
        };
        assert!(
            Manifest::read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("not a complete backup")
        );
        manifest(FORMAT).write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), manifest(FORMAT));
        let newer = serde_json::to_vec(&manifest(FORMAT + 1)).unwrap();
        fs::write(folder.path().join(MANIFEST), newer).unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("its format is 2"), "{error}");
    }
}
