//! Stores the files that programs write as artifacts.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use longhaul::{Ctx, JobError};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

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

/// Stores every file of the folder as an artifact.
pub(super) async fn store(ctx: &Ctx, folder: &Path) -> Result<(), JobError> {
    let listed = folder.to_owned();
    let files = tokio::task::spawn_blocking(move || list(&listed)).await?;
    for (path, name, metadata) in files.map_err(|error| cannot_read(&error))? {
        // A link could expose files that only the server may read.
        if !metadata.is_file() {
            let message = format!("{name:?} in the artifacts folder is not a file");
            return Err(JobError::fatal(message).with_code("artifact-not-a-file"));
        }
        store_file(ctx, &path, name).await?;
    }
    Ok(())
}

fn list(folder: &Path) -> io::Result<Vec<(PathBuf, String, Metadata)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((entry.path(), name, entry.path().symlink_metadata()?));
    }
    files.sort_by(|(_, one, _), (_, other, _)| one.cmp(other));
    Ok(files)
}

async fn store_file(ctx: &Ctx, path: &Path, name: String) -> Result<(), JobError> {
    let guessed = mime_guess::from_path(path).first_or_octet_stream();
    let mut file = File::open(path).await.map_err(|error| cannot_read(&error))?;
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
