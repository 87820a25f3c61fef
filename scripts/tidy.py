#!/usr/bin/env python3
"""House rules that no linter knows.

Usage: scripts/tidy.py              check the working tree
       scripts/tidy.py --self-test  show that each rule catches what it is for

A line that has to break a rule says so, on the line itself or the one above, with the reason:

    // tidy: allow(sleep) the kernel sends no signal when the socket buffer drains

An exception that no longer excepts anything is an error too.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Callable, Iterator, NamedTuple

Tree = dict[str, str]  # path -> text


class Finding(NamedTuple):
    path: str
    line: int  # 0: the file as a whole
    message: str


Rule = Callable[[Tree], Iterator[Finding]]
RULES: dict[str, Rule] = {}


def rule(check: Rule) -> Rule:
    RULES[check.__name__.replace("_", "-")] = check
    return check


# --- reading ---

ENGINE = "crates/longhaul/"
SERVER = "crates/longhaul-server/"
TEXT = {".rs", ".sql", ".py", ".md", ".toml", ".ts", ".js", ".html", ".sh", ".json", ""}
THIS = re.compile(r"^scripts/tidy(_test)?\.py$")  # quotes what it forbids


def read_tree(root: Path) -> Tree:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout
    tree = {}
    for path in sorted(filter(None, set(listed.split("\0")))):
        file = root / path
        if file.suffix in TEXT and file.is_file() and not file.name.startswith("LICENSE"):
            tree[path] = file.read_text(encoding="utf-8", errors="replace")
    return tree


def files(tree: Tree, *suffixes: str, under: str = "") -> Iterator[tuple[str, str]]:
    for path, text in tree.items():
        if path.startswith(under) and PurePosixPath(path).suffix in suffixes:
            yield path, text


def rust(tree: Tree, under: str = "") -> Iterator[tuple[str, str]]:
    """Rust sources with comments blanked out, line for line."""
    for path, text in files(tree, ".rs", under=under):
        yield path, re.sub(r"(?m)(?<![:\"])//.*$", "", text)


def in_tests(path: str) -> bool:
    return "/tests/" in path or path.endswith("/tests.rs") or "/conformance" in path


def without_tests(text: str) -> str:
    """The part of a source file before its `#[cfg(test)]` module, which comes last."""
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


def matches(path: str, text: str, pattern: str, message: str) -> Iterator[Finding]:
    for match in re.finditer(pattern, text):
        said = message.format(*match.groups(), match=match.group().strip())
        yield Finding(path, text.count("\n", 0, match.start()) + 1, said)


# --- the rules ---

LINES_MAX = 500


@rule
def file_length(tree: Tree) -> Iterator[Finding]:
    for path, text in files(tree, ".rs", ".sql", ".py", ".ts"):
        lines = text.count("\n")
        if lines > LINES_MAX:
            yield Finding(path, 0, f"{lines} lines: past {LINES_MAX} a file is asking to be two")


# Synonyms of our vocabulary, as the words of an identifier, and the word that we use.
SYNONYMS = {
    "workflow": "job", "task_id": "job_id", "task_kind": "kind", "task_name": "kind",
    "task_status": "status", "job_type": "kind", "job_state": "status", "state_machine_state": "status",
    "worker_id": "replica", "worker_name": "replica", "instance_id": "replica",
    "retry_count": "attempt", "retries_left": "attempt, max_attempts", "max_retries": "max_attempts",
    "attempt_count": "attempt", "fencing_token": "epoch", "lease_token": "epoch", "lock_token": "epoch",
    "locked_by": "replica", "locked_until": "lease", "visible_at": "run_at", "scheduled_at": "run_at",
    "run_after": "run_at", "org_id": "tenant", "account_id": "tenant", "customer_id": "tenant",
    "finished_at": "completed_at", "dedup_key": "idempotency_key", "canceled": "cancelled",
}  # fmt: skip

# These speak of others: peers in their words, clients and the payment provider in theirs.
FOREIGN = re.compile(
    r"^bench/|^docs/.*peers|^crates/longhaul-server/src/doors?[/.]|/snapshots/|/api/billing[/.]"
)


@rule
def vocabulary(tree: Tree) -> Iterator[Finding]:
    for path, text in files(tree, ".rs", ".sql", ".md", ".toml", ".ts", ".html"):
        if FOREIGN.search(path):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for token in set(re.findall(r"[A-Za-z][A-Za-z0-9_]*", line)):
                words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", token).lower().removesuffix("s")
                for synonym, ours in SYNONYMS.items():
                    if f"_{synonym}_" in f"_{words}_":
                        yield Finding(path, number, f"`{token}`: our word is `{ours}`")
        if path.endswith(".sql"):
            code = re.sub(r"(?m)--.*$", "", text)
            yield from matches(path, code, r"\bstate\b", "column `state`: our word is `status`")


@rule
def sql_says_why(tree: Tree) -> Iterator[Finding]:
    for path, text in files(tree, ".sql"):
        if not re.match(r"-- \S", text):
            yield Finding(path, 0, "opens with no `-- ` line that says why")


@rule
def sql_one_statement(tree: Tree) -> Iterator[Finding]:
    for path, text in files(tree, ".sql"):
        code = re.sub(r"--.*|'[^']*'", "", text).strip().removesuffix(";")
        if "/migrations/" not in path and ";" in code:
            yield Finding(path, 0, "more than one statement in a file")


@rule
def sql_is_a_file(tree: Tree) -> Iterator[Finding]:
    inline = r'(?i)"\s*(select\s[^"]*?\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from)\s'
    for path, text in rust(tree, ENGINE + "src/store"):
        if not in_tests(path):
            yield from matches(path, without_tests(text), inline, "SQL in a string: make it a file")


@rule
def sql_is_used(tree: Tree) -> Iterator[Finding]:
    for path, _ in files(tree, ".sql", under=ENGINE + "src/store/"):
        backend = path.split("/")[4]
        stem = PurePosixPath(path).stem
        sources = "".join(t for _, t in rust(tree, f"{ENGINE}src/store/{backend}"))
        if "/migrations/" not in path and not re.search(rf"\b{re.escape(stem)}\b", sources):
            yield Finding(path, 0, f"no source under store/{backend} names it")


# Where a source may not reach, and what it may not name there.
DIRECTIONS = [
    (r"^crates/longhaul/src/job(/|\.rs$)", ["store", "engine"],
     ["tokio", "rusqlite", "tokio_postgres"], "`job` is pure: no runtime, no SQL, no store"),
    (r"^crates/longhaul/src/store(/(?!conformance)|\.rs$)", ["engine"], [], "engine → store → job"),
    (r"^crates/longhaul/src/(?!store/sqlite)", [], ["rusqlite"], "only store/sqlite knows rusqlite"),
]  # fmt: skip


@rule
def direction(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree):
        for where, modules, crates, why in DIRECTIONS:
            if not re.search(where, path):
                continue
            text = without_tests(text)
            for name in modules:
                reached = rf"\bcrate::{name}\b|\buse crate::\{{[^;]*?\b{name}\b[^;]*;"
                yield from matches(path, text, reached, f"reaches for `crate::{name}`: {why}")
            for name in crates:
                yield from matches(path, text, rf"\b{name}::", f"reaches for `{name}`: {why}")


HTTP_AND_CLI = {"anyhow", "axum", "clap", "hyper", "hyper-util", "longhaul-server", "tower-http"}
KEPT_OUT = {
    "longhaul": HTTP_AND_CLI | {"longhaul-client", "longhaul-kinds", "reqwest"},
    "longhaul-client": HTTP_AND_CLI | {"longhaul", "longhaul-kinds", "rusqlite"},
    # The client's wire types and durations, without its HTTP, are as good for kinds as for callers.
    "longhaul-kinds": HTTP_AND_CLI | {"rusqlite"},
}


def dependencies(tree: Tree) -> Iterator[tuple[str, str, str, int]]:
    """Path of the manifest, name of the crate, name of a dependency, its line."""
    for path, text in files(tree, ".toml", under="crates/"):
        if not path.endswith("/Cargo.toml"):
            continue
        manifest = tomllib.loads(text)
        body = text[text.find("\n[dependencies]") :]
        for name in manifest.get("dependencies", {}):
            at = re.search(rf"(?m)^{re.escape(name)}\b(?!-)", body)
            offset = text.find(body) + (at.start() if at else 0)
            yield path, manifest["package"]["name"], name, text.count("\n", 0, offset) + 1


@rule
def dependency_direction(tree: Tree) -> Iterator[Finding]:
    for path, crate, name, line in dependencies(tree):
        if name in KEPT_OUT.get(crate, ()):
            yield Finding(path, line, f"{crate} must not depend on {name}")


@rule
def dependency_unused(tree: Tree) -> Iterator[Finding]:
    for path, crate, name, line in dependencies(tree):
        sources = "".join(t for _, t in rust(tree, path.removesuffix("Cargo.toml")))
        if not re.search(rf"\b{name.replace('-', '_')}\b", sources):
            yield Finding(path, line, f"no source of {crate} names {name}")


@rule
def environment(tree: Tree) -> Iterator[Finding]:
    allowed = re.compile(rf"^{SERVER}src/(config|cli|main)\b|/build\.rs$")
    for path, text in rust(tree, "crates/"):
        if "/src/" in path and not allowed.search(path):
            yield from matches(
                path, without_tests(text), r"\benv::vars?(_os)?\b",
                "only config and cli read the environment; take it by argument",
            )  # fmt: skip


@rule
def library_prints(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree, "crates/"):
        if "/src/" in path and not path.startswith(SERVER):
            said = "a library does not print: use tracing"
            yield from matches(path, without_tests(text), r"\be?print(ln)?!", said)


@rule
def ignored_test(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree):
        said = "a test that is ignored is not a test: fix it or delete it"
        yield from matches(path, text, r"#\[ignore\b", said)


@rule
def test_name(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree):
        said = "`{0}`: a test is named as a promise, with no prefix"
        yield from matches(path, text, r"\bfn (test_\w+)", said)


@rule
def sleep(tree: Tree) -> Iterator[Finding]:
    slept = r"\b(?:thread::sleep|time::sleep(?:_until)?)\b|(?<![\w.])sleep\("
    for path, text in rust(tree):
        tests = text if in_tests(path) else text[len(without_tests(text)) :]
        before = text[: len(text) - len(tests)].count("\n")
        for found in matches(path, tests, slept, "a test waits for a signal or moves the clock"):
            yield found._replace(line=found.line + before)


@rule
def unfinished(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.items():
        if not THIS.match(path):
            said = "{match}: do it, or file it where it will be found"
            yield from matches(path, text, r"\b(?:TODO|FIXME|HACK|XXX)\b", said)


@rule
def commented_code(tree: Tree) -> Iterator[Finding]:
    code = r"(?m)^\s*//\s?(?:pub |use [\w:]+|mod \w+;|let |fn \w+\(|#!?\[|\}$).*"
    for path, text in files(tree, ".rs"):
        yield from matches(path, text, code, "code in a comment: git remembers what is deleted")


# --- exceptions and running ---

ALLOW = re.compile(r"tidy: allow\(([\w-]+)\)[ \t]*(.*)")


def check(tree: Tree) -> list[str]:
    """All findings that no exception covers, and all exceptions that cover none."""
    problems = []
    allowed: dict[tuple[str, str], dict[int, bool]] = {}  # (path, rule) -> line -> was needed
    for path, text in tree.items():
        for number, line in enumerate([] if THIS.match(path) else text.splitlines(), 1):
            if found := ALLOW.search(line):
                name, reason = found.groups()
                allowed.setdefault((path, name), {})[number] = False
                if name not in RULES:
                    problems.append(f"{path}:{number}: there is no rule `{name}`")
                if len(reason.replace("-->", "").strip()) < 10:
                    problems.append(f"{path}:{number}: an exception gives its reason")
    for name, run in RULES.items():
        for path, line, message in run(tree):
            here = allowed.get((path, name), {})
            covering = [n for n in here if line == 0 or n in (line, line - 1)]
            for number in covering:
                here[number] = True
            if not covering:
                problems.append(f"{path}:{line or 1}: {message} [{name}]")
    for (path, name), lines in allowed.items():
        for number, needed in lines.items():
            if name in RULES and not needed:
                problems.append(f"{path}:{number}: this exception to `{name}` excepts nothing")
    return sorted(problems)


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    if "--self-test" in sys.argv[1:]:
        sys.path.insert(0, str(root / "scripts"))
        import tidy_test

        return tidy_test.run()
    problems = check(read_tree(root))
    print("\n".join(problems + [f"tidy: {len(problems)} problems, {len(RULES)} rules"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
