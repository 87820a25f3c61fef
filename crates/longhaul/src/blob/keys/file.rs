//! Keys in a file that only its owner can read.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{KeyError, Keyring, ServerKey};
use crate::blob::cipher::random;

const MODE: u32 = 0o600;
/// Permissions of group and others, none of which may be set.
const MODE_OF_OTHERS: u32 = 0o077;
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Comment at the start of a new key file.
const INTRODUCTION: &str = "\
# Keys of this server. The first wraps, the others open what they once wrapped.
# Keep a copy where the database's backups are not: without these keys no blob can be read.
";

impl Keyring {
    /// Reads the keys of a file. If it does not exist, it is created with one random key; its
    /// directory must exist.
    pub fn open(path: &Path) -> Result<Self, KeyError> {
        match read(path) {
            Ok(text) => Self::parse(&text),
            Err(KeyError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let _alone = lock_folder(path)?;
                // Another process may have created it in the meantime.
                if !path.exists() {
                    write(path, &[INTRODUCTION, &ServerKey::generate().text(), "\n"])?;
                }
                Self::parse(&read(path)?)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds a random key as the first of an existing file. Earlier keys still decrypt what they
    /// wrapped. Running processes use the key that they have read until they are restarted.
    pub fn rotate(path: &Path) -> Result<Self, KeyError> {
        let _alone = lock_folder(path)?;
        let before = read(path)?;
        Self::parse(&before)?;
        let fresh = ServerKey::generate().text();
        let mut after = Zeroizing::new(String::with_capacity(fresh.len() + 1 + before.len()));
        after.extend([fresh.as_str(), "\n", before.as_str()]);
        // Validated before it is written.
        let keyring = Self::parse(&after)?;
        write(path, &[after.as_str()])?;
        Ok(keyring)
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> KeyError {
    move |source| KeyError::File { path: path.to_owned(), source }
}

/// Reads the file, if only its owner has access.
fn read(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let file = File::open(path).map_err(at(path))?;
    // Metadata of the open file, so that it cannot be exchanged in between.
    let metadata = file.metadata().map_err(at(path))?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & MODE_OF_OTHERS != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(at(path)(io::Error::new(ErrorKind::FileTooLarge, "it is too large")));
    }
    let mut text = Zeroizing::new(String::with_capacity(64 * 1024));
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(at(path))?;
    Ok(text)
}

/// Replaces the file atomically: also after a crash, readers see either the old or the new content.
fn write(path: &Path, texts: &[&str]) -> Result<(), KeyError> {
    let folder = folder_of(path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:08x}.new", u32::from_be_bytes(random())));
    let new = folder.join(name);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
        for text in texts {
            file.write_all(text.as_bytes())?;
        }
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        File::open(&folder)?.sync_all()
    })();
    if written.is_err() {
        std::fs::remove_file(&new).ok();
    }
    written.map_err(at(path))
}

/// Locks the directory against changes by other processes until dropped.
fn lock_folder(path: &Path) -> Result<File, KeyError> {
    let folder = File::open(folder_of(path)).map_err(at(path))?;
    folder.lock().map_err(at(path))?;
    Ok(folder)
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}
