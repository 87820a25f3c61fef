//! Files that are whole or not there: written under another name, and renamed at the end.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::cli::{CliError, Ui, is_dash};

/// Before the umask takes its part, as of any file that a program makes.
const MODE: u32 = 0o666;

/// Where bytes are to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputTarget {
    /// To whoever reads our output.
    Stdout,
    /// To a file that was named, in place of what is there.
    Over(PathBuf),
    /// To a file that must not be there yet.
    New(PathBuf),
}

/// Bytes on their way to a target.
#[derive(Debug)]
pub(crate) enum OutputFile {
    /// Nothing to be undone there.
    Stdout,
    /// A pipe or a device, which a rename would replace.
    Device(File, PathBuf),
    /// A draft beside the file, deleted with this unless it is finished.
    Draft { draft: NamedTempFile, path: PathBuf, replaces: bool },
}

impl OutputTarget {
    /// What `-o` names.
    pub(crate) fn named(path: &Path) -> Self {
        if is_dash(path) { Self::Stdout } else { Self::Over(path.to_owned()) }
    }

    /// Makes ready to write. What is there stays as it is until the end.
    pub(crate) fn open(&self) -> Result<OutputFile, CliError> {
        match self {
            Self::Stdout => Ok(OutputFile::Stdout),
            Self::Over(path) => open(path, true).map_err(at(path)),
            Self::New(path) if path.symlink_metadata().is_ok() => Err(taken(path)),
            Self::New(path) => open(path, false).map_err(at(path)),
        }
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::Over(path) | Self::New(path) => Some(path),
        }
    }
}

impl OutputFile {
    pub(crate) fn write(&mut self, bytes: &[u8], ui: &mut Ui<'_>) -> Result<(), CliError> {
        match self {
            Self::Stdout => ui.bytes(bytes),
            Self::Device(file, path) => file.write_all(bytes).map_err(at(path)),
            Self::Draft { draft, path, .. } => draft.write_all(bytes).map_err(at(path)),
        }
    }

    /// All is written: now the file may be seen.
    pub(crate) fn finish(self, ui: &mut Ui<'_>) -> Result<(), CliError> {
        match self {
            Self::Stdout => ui.flush(),
            Self::Device(..) => Ok(()),
            Self::Draft { draft, path, replaces: true } => {
                draft.persist(&path).map(drop).map_err(|failed| at(&path)(failed.error))
            }
            Self::Draft { draft, path, replaces: false } => match draft.persist_noclobber(&path) {
                Ok(_) => Ok(()),
                Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(taken(&path))
                }
                Err(failed) => Err(at(&path)(failed.error)),
            },
        }
    }
}

fn open(path: &Path, replaces: bool) -> io::Result<OutputFile> {
    // Through links: what they point at is replaced, and not they.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = path.metadata().ok();
    if before.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(io::Error::other("it is a folder"));
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
        // Not in tempfile's words, which name a draft that nobody knows of.
        let reason = if error.kind() == io::ErrorKind::NotFound {
            "there is no such folder".to_owned()
        } else if error.kind() == io::ErrorKind::Other {
            error.to_string()
        } else {
            error.kind().to_string()
        };
        CliError::Other(anyhow::anyhow!("cannot write {}: {reason}", path.display()))
    }
}

fn taken(path: &Path) -> CliError {
    CliError::Usage {
        message: format!("{} is there already", path.display()),
        hint: Some("-o names another file, or the same to replace it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use longhaul::clock::Clock;

    use super::*;

    fn save(target: &OutputTarget, bytes: &[u8], finish: bool) -> Result<(), CliError> {
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
    fn what_is_not_finished_leaves_nothing_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        save(&OutputTarget::Over(path.clone()), b"half", false).unwrap();
        assert!(names(folder.path()).is_empty());
        std::fs::write(&path, "old").unwrap();
        save(&OutputTarget::Over(path.clone()), b"half", false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        save(&OutputTarget::Over(path.clone()), b"new", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_file_that_nobody_named_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = OutputTarget::New(folder.path().join("a"));
        let mut saving = target.open().unwrap();
        save(&target, b"first", true).unwrap();
        let error = target.open().unwrap_err();
        assert!(error.message().ends_with("/a is there already"), "{}", error.message());

        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut ui = Ui::captured(&mut out, &mut err, false, Clock::system());
        saving.write(b"second", &mut ui).unwrap();
        assert!(saving.finish(&mut ui).is_err());
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "first");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_file_keeps_its_permissions_and_a_link_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        save(&OutputTarget::Over(link.clone()), b"new", true).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        save(&OutputTarget::Over("/dev/null".into()), b"x", true).unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }

    #[test]
    fn where_nothing_can_be_written_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for (path, reason) in [
            (folder.path().to_owned(), "it is a folder"),
            (folder.path().join("x/y"), "there is no such folder"),
        ] {
            let error = OutputTarget::Over(path.clone()).open().unwrap_err();
            assert_eq!(error.message(), format!("cannot write {}: {reason}", path.display()));
        }
    }
}
