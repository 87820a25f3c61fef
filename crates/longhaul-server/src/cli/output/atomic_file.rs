//! Output files that appear only when complete: written under a temporary name, then renamed.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::cli::{CliError, CliResult, Ui, is_dash};

/// Mode of new files, before the umask.
const MODE: u32 = 0o666;

/// Destination of output bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputTarget {
    Stdout,
    /// A file that the user named; an existing one is replaced.
    Replace(PathBuf),
    /// A file that must not exist yet.
    New(PathBuf),
}

/// An output that is being written.
#[derive(Debug)]
pub(crate) enum OutputFile {
    Stdout,
    /// A pipe or a device, which a rename would replace.
    Device(File, PathBuf),
    /// A temporary file beside the destination, deleted on drop unless it is finished.
    Draft {
        draft: NamedTempFile,
        path: PathBuf,
        replaces: bool,
    },
}

impl OutputTarget {
    /// Returns the destination of `-o`.
    pub(crate) fn named(path: &Path) -> Self {
        if is_dash(path) { Self::Stdout } else { Self::Replace(path.to_owned()) }
    }

    /// Opens the output. An existing file is unchanged until [`OutputFile::finish`].
    pub(crate) fn open(&self) -> CliResult<OutputFile> {
        match self {
            Self::Stdout => Ok(OutputFile::Stdout),
            Self::Replace(path) => open(path, true).map_err(at(path)),
            Self::New(path) if path.symlink_metadata().is_ok() => Err(already_exists(path)),
            Self::New(path) => open(path, false).map_err(at(path)),
        }
    }

    /// Returns the path, unless it is stdout.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::Replace(path) | Self::New(path) => Some(path),
        }
    }
}

impl OutputFile {
    pub(crate) fn write(&mut self, bytes: &[u8], ui: &mut Ui<'_>) -> CliResult<()> {
        match self {
            Self::Stdout => ui.bytes(bytes),
            Self::Device(file, path) => file.write_all(bytes).map_err(at(path)),
            Self::Draft { draft, path, .. } => draft.write_all(bytes).map_err(at(path)),
        }
    }

    /// Moves the complete file to its destination.
    pub(crate) fn finish(self, ui: &mut Ui<'_>) -> CliResult<()> {
        match self {
            Self::Stdout => ui.flush(),
            Self::Device(..) => Ok(()),
            Self::Draft { draft, path, replaces: true } => {
                draft.persist(&path).map(drop).map_err(|failed| at(&path)(failed.error))
            }
            Self::Draft { draft, path, replaces: false } => match draft.persist_noclobber(&path) {
                Ok(_) => Ok(()),
                Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(already_exists(&path))
                }
                Err(failed) => Err(at(&path)(failed.error)),
            },
        }
    }
}

fn open(path: &Path, replaces: bool) -> io::Result<OutputFile> {
    // Follow links, so that their target is replaced and not the link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = path.metadata().ok();
    if before.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(io::Error::other("it is a directory"));
    }
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        return Ok(OutputFile::Device(File::options().write(true).open(&path)?, path));
    }
    let permissions = before.map_or_else(|| Permissions::from_mode(MODE), |b| b.permissions());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let draft = Builder::new()
        .prefix(".longhaul-")
        .suffix(".part")
        .permissions(permissions)
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    Ok(OutputFile::Draft { draft, path, replaces })
}

fn at(path: &Path) -> impl Fn(io::Error) -> CliError {
    move |error| {
        // Without tempfile's message, which names the temporary file.
        let reason = if error.kind() == io::ErrorKind::NotFound {
            "no such directory".to_owned()
        } else if error.kind() == io::ErrorKind::Other {
            error.to_string()
        } else {
            error.kind().to_string()
        };
        CliError::Other(anyhow::anyhow!("cannot write {}: {reason}", path.display()))
    }
}

fn already_exists(path: &Path) -> CliError {
    let hint = "name another file with -o, or the same one to replace it";
    CliError::usage_with_hint(format!("{} already exists", path.display()), hint)
}

#[cfg(test)]
mod tests {
    use longhaul::clock::Clock;

    use super::*;

    fn save(target: &OutputTarget, bytes: &[u8], finish: bool) -> CliResult<()> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut ui = Ui::captured(&mut out, &mut err, false, Clock::system());
        let mut saving = target.open()?;
        saving.write(bytes, &mut ui)?;
        if finish { saving.finish(&mut ui) } else { Ok(()) }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn unfinished_output_leaves_no_file_and_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        save(&OutputTarget::Replace(path.clone()), b"half", false).unwrap();
        assert!(names(folder.path()).is_empty());
        std::fs::write(&path, "old").unwrap();
        save(&OutputTarget::Replace(path.clone()), b"half", false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        save(&OutputTarget::Replace(path.clone()), b"new", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn default_output_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = OutputTarget::New(folder.path().join("a"));
        let mut saving = target.open().unwrap();
        save(&target, b"first", true).unwrap();
        let error = target.open().unwrap_err();
        assert!(error.to_string().ends_with("/a already exists"), "{error}");

        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut ui = Ui::captured(&mut out, &mut err, false, Clock::system());
        saving.write(b"second", &mut ui).unwrap();
        assert!(saving.finish(&mut ui).is_err());
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "first");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn replaced_output_file_keeps_permissions_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        save(&OutputTarget::Replace(link.clone()), b"new", true).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn output_device_is_not_replaced() {
        save(&OutputTarget::Replace("/dev/null".into()), b"x", true).unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }

    #[test]
    fn unwritable_output_path_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for (path, reason) in [
            (folder.path().to_owned(), "it is a directory"),
            (folder.path().join("x/y"), "no such directory"),
        ] {
            let error = OutputTarget::Replace(path.clone()).open().unwrap_err();
            assert_eq!(error.to_string(), format!("cannot write {}: {reason}", path.display()));
        }
    }
}
