//! The user that programs run as.
//!
//! The standard library can set the user and group of a child process, but drops its supplementary groups; setting those
//! needs unsafe code between fork and exec. So a launcher, a separate small program, drops the privileges and then
//! replaces itself by the program ([`ProgramUser::exec`]). Changing the credentials of a thread of the server instead
//! would let other processes of the user send signals to the server.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// User, group and supplementary groups of programs, looked up once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramUser {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    home: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum ProgramUserError {
    #[error("there is no user {0:?} on this machine")]
    Unknown(String),
    #[error("programs can run as user {0:?} only if the server runs as root")]
    NotRoot(String),
    #[error("cannot look up the user {name:?}: {source}")]
    Lookup { name: String, source: io::Error },
    #[error("programs can run as another user on Linux only")]
    Unsupported,
}

impl ProgramUser {
    /// Looks up a user of this machine. Fails unless this process runs as root, which alone can run programs as
    /// another user.
    #[cfg(target_os = "linux")]
    pub fn find(name: &str) -> Result<Self, ProgramUserError> {
        use nix::unistd::{User, getgrouplist};
        let lookup = |error: nix::Error| ProgramUserError::Lookup {
            name: name.to_owned(),
            source: error.into(),
        };
        let unknown = || ProgramUserError::Unknown(name.to_owned());
        let user = User::from_name(name).map_err(lookup)?.ok_or_else(unknown)?;
        if !rustix::process::geteuid().is_root() {
            return Err(ProgramUserError::NotRoot(name.to_owned()));
        }
        let c_name = std::ffi::CString::new(name).map_err(|_| unknown())?;
        let groups = getgrouplist(&c_name, user.gid).map_err(lookup)?;
        Ok(Self {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
            home: user.dir,
        })
    }

    /// Returns an error.
    #[cfg(not(target_os = "linux"))]
    pub fn find(_: &str) -> Result<Self, ProgramUserError> {
        Err(ProgramUserError::Unsupported)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Makes the user the owner of a file or folder. Does not follow a link.
    pub(super) fn own(&self, path: &Path) -> io::Result<()> {
        if fs::symlink_metadata(path)?.is_symlink() {
            return Err(io::Error::other("it is a link"));
        }
        chown(path, Some(self.uid), Some(self.gid))
    }

    /// Returns the first of a folder and its ancestors that the user may not enter, by its mode. Folders that do not
    /// exist are ignored.
    pub fn cannot_enter(&self, folder: &Path) -> Option<PathBuf> {
        let folder = std::path::absolute(folder).ok()?;
        let mut ancestors: Vec<&Path> = folder.ancestors().collect();
        ancestors.reverse();
        let blocked = ancestors.into_iter().find(|path| {
            fs::metadata(path)
                .is_ok_and(|found| !self.has_x(found.mode(), found.uid(), found.gid()))
        });
        blocked.map(Path::to_owned)
    }

    fn has_x(&self, mode: u32, owner: u32, group: u32) -> bool {
        let class = if owner == self.uid {
            0o100
        } else if self.groups.contains(&group) {
            0o010
        } else {
            0o001
        };
        self.uid == 0 || mode & class != 0
    }

    /// Returns the arguments of a launcher, before those of the program.
    pub(super) fn launcher_args(&self) -> [OsString; 3] {
        let groups: Vec<String> = self.groups.iter().map(ToString::to_string).collect();
        [self.uid.to_string(), self.gid.to_string(), groups.join(",")].map(OsString::from)
    }

    /// Replaces this process, which must run as root and have one thread, by a program of the user with these ids.
    /// Returns only if that fails.
    #[cfg(target_os = "linux")]
    pub fn exec(
        uid: u32,
        gid: u32,
        groups: &[u32],
        program: &OsString,
        args: &[OsString],
    ) -> io::Error {
        use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
        let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
        // The user last, because it takes the right to change the groups.
        let dropped = setgroups(&groups)
            .and_then(|()| setgid(Gid::from_raw(gid)))
            .and_then(|()| setuid(Uid::from_raw(uid)));
        match dropped {
            Ok(()) => Command::new(program).args(args).exec(),
            Err(error) => error.into(),
        }
    }

    /// Returns an error.
    #[cfg(not(target_os = "linux"))]
    pub fn exec(_: u32, _: u32, _: &[u32], _: &OsString, _: &[OsString]) -> io::Error {
        io::Error::other(ProgramUserError::Unsupported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> ProgramUser {
        let (name, home) = ("u".to_owned(), PathBuf::from("/nonexistent"));
        ProgramUser { name, uid: 7, gid: 8, groups: vec![8, 9], home }
    }

    #[test]
    fn right_to_enter_a_folder_is_that_of_owner_group_or_others() {
        let user = user();
        for (mode, owner, group, may) in [
            (0o700, 0, 0, false),
            (0o711, 0, 0, true),
            (0o700, 7, 0, true),
            (0o077, 7, 8, false),
            (0o710, 0, 9, true),
            (0o701, 0, 9, false),
        ] {
            assert_eq!(user.has_x(mode, owner, group), may, "{mode:o} {owner} {group}");
        }
    }

    #[test]
    fn folder_that_the_user_cannot_enter_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (open, shut) = (folder.path().join("open"), folder.path().join("open/shut"));
        fs::create_dir_all(&shut).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(folder.path(), 0o711);
        set(&open, 0o711);
        set(&shut, 0o700);
        assert_eq!(user().cannot_enter(&open.join("missing")), None);
        assert_eq!(user().cannot_enter(&shut.join("missing")), Some(shut.clone()));
        set(folder.path(), 0o700);
        assert_eq!(user().cannot_enter(&shut), Some(folder.path().to_owned()));
    }
}
