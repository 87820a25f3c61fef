//! Keys in a file that only its owner can read.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{KeyError, Keyring, ServerKey};
use crate::blob::cipher::random;

/// What owner, group and others may do with a key file that we make.
const MODE: u32 = 0o600;
/// The rights of group and others: none may be set.
const MODE_OF_OTHERS: u32 = 0o077;
/// A key file that is larger is something else.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// How a key file that we make begins.
const INTRODUCTION: &str = "\
# Keys of this server. The first wraps, the others open what they once wrapped.
# Keep a copy where the database's backups are not: without these keys no blob can be read.
";

impl Keyring {
    /// Reads the keys of a file. If there is none, it is made, with one fresh key; its folder must exist.
    pub fn open(path: &Path) -> Result<Self, KeyError> {
        match read(path) {
            Ok(text) => Self::parse(&text),
            Err(KeyError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let _alone = lock_folder(path)?;
                // Another process may have made it in the meantime.
                if !path.exists() {
                    write(path, &[INTRODUCTION, &ServerKey::generate().text(), "\n"])?;
                }
                Self::parse(&read(path)?)
            }
            Err(error) => Err(error),
        }
    }

    /// Puts a fresh key first in a file that is there. What was wrapped before can still be unwrapped.
    /// Processes that have read the file before go on with the key they know: start them again.
    pub fn rotate(path: &Path) -> Result<Self, KeyError> {
        let _alone = lock_folder(path)?;
        let before = read(path)?;
        Self::parse(&before)?;
        let fresh = ServerKey::generate().text();
        let mut after = Zeroizing::new(String::with_capacity(fresh.len() + 1 + before.len()));
        after.extend([fresh.as_str(), "\n", before.as_str()]);
        // What could not be read again is not written.
        let keyring = Self::parse(&after)?;
        write(path, &[after.as_str()])?;
        Ok(keyring)
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> KeyError {
    move |source| KeyError::File { path: path.to_owned(), source }
}

/// Everything in the file, if it is its owner's alone.
fn read(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let file = File::open(path).map_err(at(path))?;
    // Of the open file, so that it cannot be exchanged in between.
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

/// Writes the file anew: whoever reads it, also after a crash, finds all of the old or all of the new.
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

/// Keeps other processes from changing the file until it is dropped.
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
