//! Programs that a killed server left running.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::workshop::Workshop;
use longhaul_kinds::command::clear_work_root;

/// A program with a child of its own, neither of which ends by itself.
struct Leftover {
    child: Child,
    /// Ends when both are gone.
    life: BufReader<ChildStdout>,
}

impl Leftover {
    /// Returns once both are there, reading from a pipe that nobody writes to.
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

    /// Waits until both are gone, and returns what they said meanwhile.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.life.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().signal(), rest)
    }

    /// Lets both end by themselves.
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

/// An attempt's folder, with a folder in it.
fn folder(work_root: &Path) -> PathBuf {
    let folder = work_root.join("01KA-1-x");
    fs::create_dir_all(folder.join("deep")).unwrap();
    folder
}

#[test]
fn program_of_a_killed_server_is_killed_with_its_child() {
    let shop = Workshop::new();
    let folder = folder(&shop.work_root());
    let programs = [Leftover::start(&folder), Leftover::start(&folder.join("deep"))];
    clear_work_root(&shop.work_root()).unwrap();
    assert!(!shop.work_root().exists());
    assert_eq!(programs.map(Leftover::ended), [killed(), killed()]);
}

#[test]
fn program_is_gone_when_the_work_root_is_cleared() {
    let shop = Workshop::new();
    let program = Leftover::start(&folder(&shop.work_root()));
    let environ = format!("/proc/{}/environ", program.child.id());
    assert!(!fs::read(&environ).unwrap().is_empty());
    clear_work_root(&shop.work_root()).unwrap();
    // Nobody has waited for it, so it is a zombie: without an environment.
    assert_eq!(fs::read(&environ).unwrap_or_default(), b"");
    assert_eq!(program.ended(), killed());
}

#[test]
fn program_is_known_by_its_folder_and_not_by_the_name_of_it() {
    let shop = Workshop::new();
    let folder = folder(&shop.work_root());
    symlink(shop.work_root(), shop.path("alias")).unwrap();
    let same = Leftover::start(&shop.path("alias").join(folder.file_name().unwrap()));
    let other = Leftover::start(&self::folder(&shop.path("other")));
    clear_work_root(&shop.work_root()).unwrap();
    assert_eq!((same.ended(), other.let_go()), (killed(), unharmed()));
}

#[test]
fn program_that_uses_another_folder_lives_on() {
    let shop = Workshop::new();
    let ended = folder(&shop.work_root()).with_file_name("01KA-2-y");
    let programs =
        [&ended, &shop.work_root(), Path::new("/tmp"), Path::new("")].map(Leftover::start);
    clear_work_root(&shop.work_root()).unwrap();
    for program in programs {
        assert_eq!(program.let_go(), unharmed());
    }
}
