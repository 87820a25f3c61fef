//! Checks of the programs of kinds.

use std::path::{Path, PathBuf};

use longhaul_server::config::{Config, KindRunner};
use longhaul_server::server::program_user;
use rustix::fs::{Access, access};

use super::finding::Finding;

const CHECK: &str = "program";

pub(super) fn all(config: &Config) -> Vec<Finding> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut findings = Vec::new();
    for (kind, declared) in &config.kinds {
        let commands: Vec<&Vec<String>> = match &declared.runner {
            KindRunner::Command(argv) => vec![argv],
            KindRunner::Steps(steps) => steps.iter().map(|step| &step.command).collect(),
            KindRunner::Http(_) => Vec::new(),
        };
        for program in commands.into_iter().filter_map(|argv| argv.first()) {
            findings.push(one(kind.as_str(), program, &folders));
        }
        if let Some(user) = declared.user.as_deref().filter(|_| config.role.runs_jobs()) {
            findings.push(match program_user(user, config) {
                Ok(_) => Finding::good("user", format!("{user} of kind {kind}")),
                Err(error) => Finding::bad(
                    "user",
                    format!("kind {kind}: {error}"),
                    "a server cannot start with it",
                ),
            });
        }
    }
    findings
}

fn one(kind: &str, program: &str, folders: &[PathBuf]) -> Finding {
    if program.contains('/') {
        return match runnable(Path::new(program)) {
            Ok(()) => Finding::good(CHECK, format!("{program} of kind {kind}")),
            Err(reason) => Finding::bad(
                CHECK,
                format!("{program} of kind {kind}: {reason}"),
                "its jobs will fail; the path is relative to the working directory of the server",
            ),
        };
    }
    match folders.iter().map(|folder| folder.join(program)).find(|path| runnable(path).is_ok()) {
        Some(found) => Finding::good(CHECK, format!("{} of kind {kind}", found.display())),
        None => Finding::bad(
            CHECK,
            format!("{program} of kind {kind} is not in PATH"),
            "its jobs will fail: install the program, or configure its path",
        ),
    }
}

fn runnable(program: &Path) -> Result<(), String> {
    match std::fs::metadata(program) {
        Ok(file) if !file.is_file() => Err("it is not a file".to_owned()),
        Ok(_) => access(program, Access::EXEC_OK).map_err(|_| "it is not executable".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::CheckVerdict;
    use super::*;

    #[test]
    fn programs_are_found_by_path_and_in_path_variable() {
        let folders = [PathBuf::from("/bin")];
        for (program, verdict) in [
            ("sh", CheckVerdict::Good),
            ("/bin/sh", CheckVerdict::Good),
            ("no-such-program", CheckVerdict::Bad),
            ("/etc/passwd", CheckVerdict::Bad),
            ("/etc", CheckVerdict::Bad),
        ] {
            assert_eq!(one("k", program, &folders).verdict, verdict, "{program}");
        }
    }
}
