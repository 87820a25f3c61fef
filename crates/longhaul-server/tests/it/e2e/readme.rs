//! Runs the console examples of the README and of the pages in `docs/`, and checks their configurations.
//!
//! In a block marked `console`, each line that starts with `$ ` is a command, continued while a line
//! ends with `\`. The lines below it are its expected output, where `…` matches anything. Ids, times
//! and durations may differ. The commands of a page run one after the other in one folder, with a
//! server of their own. A block marked `console no-run` is not run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::redact::redact;
use crate::harness::{CommandOutput, Installation, LONGHAUL, output_of};

/// A command with its expected output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    /// Line in the page, from 1.
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Returns the commands of a page, in order.
pub(crate) fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let (mut inside, mut runs, mut continued) = (false, false, false);
    for (number, line) in text.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside;
            runs = inside && info.trim() == "console";
            // A block's first lines belong to no command of an earlier block.
            continued = false;
        } else if !runs {
        } else if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            continued = command.ends_with('\\');
            found.push(Example { line: number + 1, command, expected: Vec::new() });
        } else if let Some(example) = found.last_mut() {
            if continued {
                example.command.push('\n');
                example.command.push_str(line);
                continued = line.ends_with('\\');
            } else {
                example.expected.push(line.to_owned());
            }
        }
    }
    found
}

/// Returns whether a printed line matches an expected one.
fn matches(expected: &str, printed: &str) -> bool {
    let mut rest = printed;
    let pieces: Vec<&str> = expected.split('…').collect();
    for (index, piece) in pieces.iter().enumerate() {
        let last = index + 1 == pieces.len();
        rest = match (index, last) {
            (0, true) => return piece.trim() == rest.trim(),
            (0, false) => match rest.strip_prefix(piece) {
                Some(rest) => rest,
                None => return false,
            },
            (_, true) => return rest.ends_with(piece),
            (_, false) => match rest.split_once(piece) {
                Some((_, rest)) => rest,
                None => return false,
            },
        };
    }
    true
}

/// Returns whether the output matches. A line of `…` alone matches any number of lines.
fn all_match(expected: &[String], printed: &[&str]) -> bool {
    match (expected, printed) {
        ([], []) => true,
        ([first, rest @ ..], _) if first.trim() == "…" => {
            all_match(rest, printed)
                || printed.split_first().is_some_and(|(_, later)| all_match(expected, later))
        }
        ([first, rest @ ..], [line, later @ ..]) => {
            matches(&redact(first), &redact(line)) && all_match(rest, later)
        }
        ([], [_, ..]) | ([_, ..], []) => false,
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Reads a file of the repository.
pub(super) fn text_of(file: &str) -> Option<String> {
    std::fs::read_to_string(repository().join(file)).ok()
}

/// Runs the commands of a page against a server.
pub(super) async fn does_what_it_says(file: &str, text: &str, install: &Installation) {
    for example in examples(text) {
        let Prints { as_expected, shown } = run(install, file, &example).await;
        assert!(as_expected, "{shown}");
    }
}

/// Result of an example.
pub(crate) struct Prints {
    pub(crate) as_expected: bool,
    /// Expected and actual output, for the failure message.
    pub(crate) shown: String,
}

/// Runs one example against a server.
pub(crate) async fn run(install: &Installation, text: &str, example: &Example) -> Prints {
    let beside = Path::new(LONGHAUL).parent().unwrap().display();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap());
    let mut shell = install.command("sh");
    shell.args(["-c", &format!("exec 2>&1\n{}", example.command)]);
    shell.env("PATH", &path).env("LONGHAUL_SERVER", install.url()).stdin(Stdio::null());
    let CommandOutput { out, err, .. } = output_of(shell).await.unwrap();
    let printed: Vec<&str> = out.lines().collect();
    let Example { line, command, expected } = example;
    let says = expected.join("\n");
    Prints {
        as_expected: all_match(expected, &printed),
        shown: format!(
            "{text}:{line}: $ {command}\n--- it says\n{says}\n--- it prints\n{out}{err}"
        ),
    }
}

/// Pages whose examples need an upstream: other tests run them.
const WITH_UPSTREAM: [&str; 3] = ["docs/chat.md", "docs/proxy.md", "docs/render.md"];

/// Returns the README and the pages in `docs/`, with their texts.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(repository().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.into_iter().map(|page| (page.clone(), text_of(&page).unwrap())).collect()
}

#[tokio::test]
async fn readme_and_docs_console_examples_print_what_they_show() {
    let mut commands = 0;
    for (page, text) in pages() {
        if WITH_UPSTREAM.contains(&page.as_str()) || examples(&text).is_empty() {
            continue;
        }
        let install = Installation::new();
        let _server = install.start().await;
        commands += examples(&text).len();
        does_what_it_says(&page, &text, &install).await;
    }
    assert!(
        commands >= 7,
        "only {commands} commands found: are the blocks still marked `console`?"
    );
}

#[tokio::test]
async fn readme_and_docs_configuration_examples_are_valid() {
    let mut blocks = 0;
    for (page, text) in pages() {
        for block in text.split("\n```toml").skip(1) {
            let (_, block) = block.split_once('\n').unwrap();
            let (config, _) = block.split_once("\n```").unwrap();
            let install = Installation::new();
            let file = install.path().join("example.toml");
            std::fs::write(&file, config).unwrap();
            let mut doctor = install.command(LONGHAUL);
            doctor.args(["--json", "doctor", "--config"]).arg(&file);
            doctor.env("REPORT_TOKEN", "token").env("OPENAI_API_KEY", "key");
            let CommandOutput { out, err, .. } = output_of(doctor).await.unwrap();
            let report: serde_json::Value = serde_json::from_str(&out).expect(&err);
            // With an invalid configuration the doctor skips all other checks.
            let checks = report["checks"].as_array().unwrap();
            assert!(checks.len() > 1, "{page}:\n{config}\n{out}");
            blocks += 1;
        }
    }
    assert!(blocks >= 8, "only {blocks} configurations found: are the blocks still marked `toml`?");
}

#[test]
fn docs_runner_runs_only_console_blocks() {
    let text = "```console\n$ one \\\n  more\nout\n\n$ two\n```\n```sh\n$ three\n```\n```console no-run\n$ four\n```\n";
    let found = examples(text);
    let commands: Vec<&str> = found.iter().map(|example| example.command.as_str()).collect();
    assert_eq!(commands, ["one \\\n  more", "two"]);
    assert_eq!(found[0].expected, ["out", ""]);
}

#[test]
fn docs_runner_ellipsis_matches_anything() {
    assert!(matches("a … c … e", "a b c d e"));
    assert!(!matches("a … c", "a b"));
    assert!(!matches("a", "a b"));
    let expected = ["a", "…", "z"].map(str::to_owned);
    assert!(all_match(&expected, &["a", "b", "c", "z"]));
    assert!(all_match(&expected, &["a", "z"]));
    assert!(!all_match(&expected, &["a", "b"]));
}
