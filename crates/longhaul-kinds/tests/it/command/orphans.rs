//! Orphaned programs of a killed server.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::TestPrograms;
use longhaul_kinds::command::clear_work_root;

/// Program with a child process; both run until they are stopped.
struct Orphan {
    child: Child,
    /// Ends when both have exited.
    life: BufReader<ChildStdout>,
}

impl Orphan {
    /// Starts both, reading from a pipe without a writer.
    fn start(tmpdir: &Path) -> Self {
        let text =
            "exec 3<&0; live() { echo begun; read -r never <&3; echo late; }; live & live; wait";
        let mut child = Command::new("sh")
            .args(["-c", text])
            .env("TMPDIR", tmpdir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut life = BufReader::new(child.stdout.take().unwrap());
        for _ in ["program", "child"] {
            assert_ne!(life.read_line(&mut String::new()).unwrap(), 0);
        }
        Self { child, life }
    }

    /// Waits for the exit of both, and returns their output.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.life.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().signal(), rest)
    }

    /// Lets both exit.
    fn let_go(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        self.ended()
    }
}

fn killed() -> (Option<i32>, String) {
    (Some(9), String::new())
}

fn unharmed() -> (Option<i32>, String) {
    (None, "late\nlate\n".to_owned())
}

/// Folder of an attempt, with a subfolder.
fn folder(work_root: &Path) -> PathBuf {
    let folder = work_root.join("01KA-1-x");
    fs::create_dir_all(folder.join("deep")).unwrap();
    folder
}

#[test]
fn orphaned_program_is_killed_with_its_child() {
    let programs = TestPrograms::new();
    let folder = folder(&programs.work_root());
    let orphans = [Orphan::start(&folder), Orphan::start(&folder.join("deep"))];
    clear_work_root(&programs.work_root()).unwrap();
    assert!(!programs.work_root().exists());
    assert_eq!(orphans.map(Orphan::ended), [killed(), killed()]);
}

#[test]
fn orphaned_program_has_exited_when_the_work_root_is_cleared() {
    let programs = TestPrograms::new();
    let program = Orphan::start(&folder(&programs.work_root()));
    let environ = format!("/proc/{}/environ", program.child.id());
    assert!(!fs::read(&environ).unwrap().is_empty());
    clear_work_root(&programs.work_root()).unwrap();
    // A zombie until it is reaped, without an environment.
    assert_eq!(fs::read(&environ).unwrap_or_default(), b"");
    assert_eq!(program.ended(), killed());
}

#[test]
fn orphaned_program_is_identified_by_inode_not_by_path() {
    let programs = TestPrograms::new();
    let folder = folder(&programs.work_root());
    symlink(programs.work_root(), programs.path("alias")).unwrap();
    let same = Orphan::start(&programs.path("alias").join(folder.file_name().unwrap()));
    let other = Orphan::start(&self::folder(&programs.path("other")));
    clear_work_root(&programs.work_root()).unwrap();
    assert_eq!((same.ended(), other.let_go()), (killed(), unharmed()));
}

#[test]
fn program_with_another_folder_is_not_killed() {
    let programs = TestPrograms::new();
    let ended = folder(&programs.work_root()).with_file_name("01KA-2-y");
    let running =
        [&ended, &programs.work_root(), Path::new("/tmp"), Path::new("")].map(Orphan::start);
    clear_work_root(&programs.work_root()).unwrap();
    for program in running {
        assert_eq!(program.let_go(), unharmed());
    }
}
