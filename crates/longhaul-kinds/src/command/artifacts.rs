//! Stores the files that programs write as artifacts.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use longhaul::{Ctx, JobError};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;
use tokio::io::AsyncReadExt;

use super::ProgramUser;

/// Name inside of the working folder.
const FOLDER: &str = "artifacts";
/// Bytes of a file in memory at a time.
const PIECE_BYTES: usize = 256 * 1024;

pub(super) async fn create_folder(folder: &Path) -> Result<PathBuf, JobError> {
    let path = folder.join(FOLDER);
    let made = tokio::fs::create_dir(&path).await;
    made.map_err(|error| {
        JobError::retryable(format!("cannot create the artifacts folder: {error}"))
    })?;
    Ok(path)
}

/// Returns whether there is a file in the folder.
pub(super) async fn exist(folder: &Path) -> Result<bool, JobError> {
    let path = folder.to_owned();
    let (_, names) = blocking(move || list(&path)).await?.map_err(|error| cannot_read(&error))?;
    Ok(!names.is_empty())
}

/// Stores every file of the folder as an artifact.
///
/// A process that a program left behind may replace files and the folder itself by links at any time, which could
/// expose files that only the server may read. So every name is opened without following links, relative to the opened
/// folder, and checked after it was opened. The files of another `user` must belong to it, because hard links have no
/// other mark.
pub(super) async fn store(
    ctx: &Ctx,
    folder: &Path,
    user: Option<&ProgramUser>,
) -> Result<(), JobError> {
    let path = folder.to_owned();
    let (folder, names) =
        blocking(move || list(&path)).await?.map_err(|error| cannot_read(&error))?;
    let uid = user.map(ProgramUser::uid);
    for name in names {
        let shown = name.to_string_lossy().into_owned();
        let folder = folder.try_clone().map_err(|error| cannot_read(&error))?;
        let opened = blocking(move || open_file(&folder, &name, uid)).await?;
        let file = match opened.map_err(|error| cannot_read(&error))? {
            ArtifactEntry::File(file) => file,
            ArtifactEntry::NotAFile => {
                let message = format!("{shown:?} in the artifacts folder is not a file");
                return Err(JobError::fatal(message).with_code("artifact-not-a-file"));
            }
            ArtifactEntry::Foreign => {
                let message = format!("{shown:?} in the artifacts folder belongs to another user");
                return Err(JobError::fatal(message).with_code("artifact-not-own"));
            }
        };
        store_file(ctx, file, shown).await?;
    }
    Ok(())
}

enum ArtifactEntry {
    File(File),
    /// A folder, a link, a pipe or a socket.
    NotAFile,
    /// A file of another user.
    Foreign,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, JobError> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// Opens the folder, and returns the names in it.
fn list(folder: &Path) -> io::Result<(OwnedFd, Vec<OsString>)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok((folder, names))
}

fn open_file(folder: &OwnedFd, name: &OsStr, uid: Option<u32>) -> io::Result<ArtifactEntry> {
    // A pipe without a writer would block otherwise.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        // A link; a socket.
        Err(Errno::LOOP | Errno::NXIO) => return Ok(ArtifactEntry::NotAFile),
        Err(error) => return Err(error.into()),
    };
    let found = fstat(&file)?;
    Ok(if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        ArtifactEntry::NotAFile
    } else if uid.is_some_and(|uid| uid != found.st_uid) {
        ArtifactEntry::Foreign
    } else {
        ArtifactEntry::File(file.into())
    })
}

async fn store_file(ctx: &Ctx, file: File, name: String) -> Result<(), JobError> {
    let guessed = mime_guess::from_path(&name).first_or_octet_stream();
    let mut file = tokio::fs::File::from_std(file);
    let mut artifact = ctx.artifact(name, guessed.essence_str())?;
    loop {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        if file.read_buf(&mut piece).await.map_err(|error| cannot_read(&error))? == 0 {
            return artifact.finish().await;
        }
        artifact.write(piece.freeze()).await?;
    }
}

fn cannot_read(error: &io::Error) -> JobError {
    JobError::retryable(format!("cannot read an artifact: {error}"))
}
