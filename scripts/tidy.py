#!/usr/bin/env python3
"""Project rules that no linter checks: layout, import direction, SQL, the glossary and the language budget.

Usage: scripts/tidy.py              check the working tree
       scripts/tidy.py --self-test  check that each rule finds its planted violation
       scripts/tidy.py --list NAME  list all uses that one count of the language budget includes
       scripts/tidy.py --update     write lower counts and resolved exemptions to scripts/tidy_budget.json

To break a rule on purpose, give the reason on the same line or the line above:

    // tidy: allow(sleep) the kernel sends no signal when the socket buffer drains

An exception without effect is an error, too.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Callable, Iterator, NamedTuple

import language

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
TEXT = {".rs", ".sql", ".py", ".md", ".toml", ".ts", ".js", ".mjs", ".html", ".sh", ".json", ""}
THIS = re.compile(r"^scripts/(tidy(_test)?|language)\.py$")  # quotes what it forbids
BUDGET = "scripts/tidy_budget.json"
PROMISES = "docs/promises.md"


def read_tree(root: Path) -> Tree:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout
    tree = {}
    for path in sorted(filter(None, set(listed.split("\0")))):
        file = root / path
        if file.is_file():
            checked = file.suffix in TEXT and not file.name.startswith("LICENSE")
            tree[path] = file.read_text(encoding="utf-8", errors="replace") if checked else ""
    return tree


def files(tree: Tree, *suffixes: str, under: str = "") -> Iterator[tuple[str, str]]:
    for path, text in tree.items():
        if path.startswith(under) and PurePosixPath(path).suffix in suffixes:
            yield path, text


def rust(tree: Tree, under: str = "") -> Iterator[tuple[str, str]]:
    """Yields Rust sources with comments blanked out, so that line numbers stay."""
    for path, text in files(tree, ".rs", under=under):
        yield path, re.sub(r"(?m)(?<![:\"])//.*$", "", text)


def in_tests(path: str) -> bool:
    return "/tests/" in path or path.endswith("/tests.rs") or "/conformance" in path


def without_tests(text: str) -> str:
    """Returns a source file up to its `#[cfg(test)]` module, which comes last."""
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


def matches(path: str, text: str, pattern: str, message: str) -> Iterator[Finding]:
    for match in re.finditer(pattern, text):
        formatted = message.format(*match.groups(), match=match.group().strip())
        yield Finding(path, text.count("\n", 0, match.start()) + 1, formatted)


# --- the rules ---

LINES_MAX = 500
FOLDER_FILES_MAX = 25
TRAIT_METHODS_MAX = 16


@rule
def file_length(tree: Tree) -> Iterator[Finding]:
    for path, text in files(tree, ".rs", ".sql", ".py", ".ts", ".mjs"):
        lines = text.count("\n")
        # A schema is one migration: splitting it would number parts that never run alone.
        if lines > LINES_MAX and "/migrations/" not in path:
            yield Finding(path, 0, f"{lines} lines: split files over {LINES_MAX} lines")


@rule
def folder_size(tree: Tree) -> Iterator[Finding]:
    sizes = Counter(str(PurePosixPath(path).parent) for path, _ in files(tree, ".rs", ".sql", ".py", ".ts", ".mjs"))
    for folder, size in sizes.items():
        if size > FOLDER_FILES_MAX:
            yield Finding(folder, 0, f"{size} source files: group folders over {FOLDER_FILES_MAX} files")


@rule
def trait_size(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree, "crates/"):
        for match in re.finditer(r"(?m)^(?:pub(?:\([\w: ]+\))? )?trait (\w+)[^{;]*\{\n(.*?)^\}", text, re.DOTALL):
            methods = len(re.findall(r"(?m)^    (?:async )?fn \w+", match.group(2)))
            if methods > TRAIT_METHODS_MAX:
                line = text.count("\n", 0, match.start()) + 1
                message = f"trait {match.group(1)} has {methods} methods: split traits over {TRAIT_METHODS_MAX} by caller"
                yield Finding(path, line, message)


# The files that both stores have, below store/sqlite and store/postgres.
STORES = [ENGINE + "src/store/sqlite/", ENGINE + "src/store/postgres/"]
TWIN_FILES = [
    "submit.rs", "claim.rs", "settle.rs", "leases.rs", "control.rs", "queries.rs", "maintenance.rs", "accounts.rs",
    "replicas.rs", "transfer.rs", "schema.rs",
    "queries/find.rs", "queries/list.rs", "queries/queues.rs", "queries/usage.rs",
    "maintenance/rescue.rs", "maintenance/prune.rs", "maintenance/blobs.rs", "maintenance/usage.rs",
    "accounts/api_keys.rs", "accounts/tenants.rs", "accounts/audit.rs", "accounts/endpoints.rs",
]  # fmt: skip


@rule
def twin_stores(tree: Tree) -> Iterator[Finding]:
    """The stores have the same shared files and SQL groups, so that one can be read against the other."""
    inside = [{path.removeprefix(store) for path in tree if path.startswith(store)} for store in STORES]
    if ENGINE + "src/store.rs" not in tree:
        return
    groups = [{path.split("/")[1] for path in paths if re.match(r"sql/[^/]+/", path)} for paths in inside]
    for store, paths, own, other in zip(STORES, inside, groups, reversed(groups)):
        for name in TWIN_FILES:
            if name not in paths:
                yield Finding(store + name, 0, "missing: both stores have this file")
        for group in sorted(other - own):
            yield Finding(f"{store}sql/{group}", 0, "missing: the other store has this group of statements")
    places = [{path.rsplit("/", 1)[1]: path for path in paths if path.startswith("sql/")} for paths in inside]
    for name in sorted(places[0].keys() & places[1].keys()):
        if places[0][name] != places[1][name]:
            yield Finding(STORES[1] + places[1][name], 0, f"its SQLite twin is {places[0][name]}: use one folder")


# Texts in foreign words: peers', clients' and the payment provider's.
FOREIGN = re.compile(r"^bench/|^docs/.*(peers|comparison)|/snapshots/|/api/billing[/.]|/api/compat/")
GLOSSARY = "ARCHITECTURE.md"


@rule
def vocabulary(tree: Tree) -> Iterator[Finding]:
    """No synonyms of the glossary's words, as the words of an identifier."""
    synonyms = language.glossary(tree.get(GLOSSARY, ""))
    if GLOSSARY in tree and not synonyms:
        yield Finding(GLOSSARY, 0, "has no section `## Glossary` with a table `word | meaning | instead of`")
    for path, text in files(tree, ".rs", ".sql", ".md", ".toml", ".ts", ".html"):
        if FOREIGN.search(path) or path == GLOSSARY:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("keywords = "):  # of a crate: search terms of its readers
                continue
            for token in set(re.findall(r"[A-Za-z][A-Za-z0-9_]*", line)):
                words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", token).lower().removesuffix("s")
                for synonym, ours in synonyms.items():
                    if f"_{synonym}_" in f"_{words}_":
                        yield Finding(path, number, f"`{token}`: the glossary's word is `{ours}`")
        if path.endswith(".sql"):
            code = re.sub(r"(?m)--.*$", "", text)
            yield from matches(path, code, r"\bstate\b", "column `state`: the glossary's word is `status`")


@rule
def language_budget(tree: Tree) -> Iterator[Finding]:
    """Counts of wordings that the style guide rules out. They may only fall."""
    if BUDGET not in tree:
        return
    counts = json.loads(tree[BUDGET])["counts"]
    for name, count in language.COUNTS.items():
        uses, budget = list(count(tree)), counts.get(name, 0)
        if len(uses) > budget:
            message = f"{name}: {len(uses)}, and the budget is {budget}; `scripts/tidy.py --list {name}` shows them"
            yield Finding(BUDGET, 0, message)
        elif len(uses) < budget:
            yield Finding(BUDGET, 0, f"{name}: lower the budget to {len(uses)} (`scripts/tidy.py --update`)")


@rule
def documented_paths(tree: Tree) -> Iterator[Finding]:
    """Source paths and relative links in documents lead somewhere, so that documents follow a rename."""
    everything = "".join(f"\n/{path}" for path in tree) + "\n"
    for path, text in files(tree, ".md"):
        if "/snapshots/" in path or path == "CHANGELOG.md":
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for name in re.findall(r"`((?!\.tools/)[\w./-]+(?:\.(?:rs|py|sql|mjs)|/))`", line):
                end = "" if name.endswith("/") else "\n"
                if "/" in name.strip("/") and f"/{name}{end}" not in everything:
                    yield Finding(path, number, f"`{name}` does not exist")
            for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", line):
                target = str(PurePosixPath(os.path.normpath(PurePosixPath(path).parent / link)))
                if f"\n/{target}\n" not in everything and f"\n/{target}/" not in everything:
                    yield Finding(path, number, f"dead link: {link}")


@rule
def documented_tests(tree: Tree) -> Iterator[Finding]:
    """Tests that the page of promises names exist."""
    tests = {name for _, text in rust(tree) for name in re.findall(r"\bfn (\w+)", text)}
    for number, line in enumerate(tree.get(PROMISES, "").splitlines(), 1):
        for name in re.findall(r"`(\w+_\w+)`", line):
            if name not in tests:
                yield Finding(PROMISES, number, f"there is no test {name}")


@rule
def sql_says_why(tree: Tree) -> Iterator[Finding]:
    for path, text in files(tree, ".sql"):
        if not re.match(r"-- \S", text):
            yield Finding(path, 0, "the first line must be a `-- ` comment with the statement's purpose")


@rule
def sql_one_statement(tree: Tree) -> Iterator[Finding]:
    for path, text in files(tree, ".sql"):
        code = re.sub(r"--.*|'[^']*'", "", text).strip().removesuffix(";")
        if "/migrations/" not in path and ";" in code:
            yield Finding(path, 0, "more than one statement: use one file each")


@rule
def sql_is_a_file(tree: Tree) -> Iterator[Finding]:
    inline = r'(?i)"\s*(select\s[^"]*?\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from)\s'
    for path, text in rust(tree, ENGINE + "src/store"):
        if not in_tests(path):
            yield from matches(path, without_tests(text), inline, "SQL in a string: move it to a file")


@rule
def sql_is_used(tree: Tree) -> Iterator[Finding]:
    for path, _ in files(tree, ".sql", under=ENGINE + "src/store/"):
        backend = path.split("/")[4]
        stem = PurePosixPath(path).stem
        sources = "".join(t for _, t in rust(tree, f"{ENGINE}src/store/{backend}"))
        if "/migrations/" not in path and not re.search(rf"\b{re.escape(stem)}\b", sources):
            yield Finding(path, 0, f"unused: no source under store/{backend} names it")


# Path, modules and crates that sources there must not use, reason.
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
                yield from matches(path, text, reached, f"uses `crate::{name}`: {why}")
            for name in crates:
                yield from matches(path, text, rf"\b{name}::", f"uses `{name}`: {why}")


HTTP_AND_CLI = {"anyhow", "axum", "clap", "hyper", "hyper-util", "longhaul-server", "tower-http"}
LIBRARIES = {"longhaul-confine", "longhaul-net", "longhaul-render"}
ENGINE_AND_KINDS = {"longhaul", "longhaul-client", "longhaul-kinds", "rusqlite"}
KEPT_OUT = {
    "longhaul": HTTP_AND_CLI | LIBRARIES | {"longhaul-client", "longhaul-kinds", "reqwest"},
    "longhaul-client": HTTP_AND_CLI | LIBRARIES | {"longhaul", "longhaul-kinds", "rusqlite"},
    "longhaul-kinds": HTTP_AND_CLI | {"longhaul-client", "rusqlite"},
    "longhaul-net": HTTP_AND_CLI | ENGINE_AND_KINDS | {"longhaul-render"},
    "longhaul-render": HTTP_AND_CLI | ENGINE_AND_KINDS | {"longhaul-net", "reqwest"},
}


def dependencies(tree: Tree) -> Iterator[tuple[str, str, str, int]]:
    """Yields manifest path, crate name, dependency name and its line."""
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
            yield Finding(path, line, f"unused: no source of {crate} names {name}")


@rule
def environment(tree: Tree) -> Iterator[Finding]:
    allowed = re.compile(rf"^{SERVER}src/(config|cli|main)\b|/build\.rs$")
    for path, text in rust(tree, "crates/"):
        if "/src/" in path and not allowed.search(path):
            yield from matches(
                path, without_tests(text), r"\benv::vars?(_os)?\b",
                "only config and cli read the environment: pass the value as an argument",
            )  # fmt: skip


@rule
def library_prints(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree, "crates/"):
        if "/src/" in path and not path.startswith(SERVER):
            message = "a library does not print: use tracing"
            yield from matches(path, without_tests(text), r"\be?print(ln)?!", message)


@rule
def ignored_test(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree):
        message = "ignored test: fix it or delete it"
        yield from matches(path, text, r"#\[ignore\b", message)


@rule
def test_name(tree: Tree) -> Iterator[Finding]:
    for path, text in rust(tree):
        message = "`{0}`: name a test as a promise, without a prefix"
        yield from matches(path, text, r"\bfn (test_\w+)", message)


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
            message = "{match}: do it or file an issue"
            yield from matches(path, text, r"\b(?:TODO|FIXME|HACK|XXX)\b", message)


@rule
def commented_code(tree: Tree) -> Iterator[Finding]:
    code = r"(?m)^\s*//\s?(?:pub |use [\w:]+|mod \w+;|let |fn \w+\(|#!?\[|\}$).*"
    for path, text in files(tree, ".rs"):
        yield from matches(path, text, code, "commented-out code: delete it")


# --- exceptions and running ---

ALLOW = re.compile(r"tidy: allow\(([\w-]+)\)[ \t]*(.*)")


def check(tree: Tree) -> list[str]:
    """Returns all findings without an exception, and all exceptions without a finding."""
    problems = []
    allowed: dict[tuple[str, str], dict[int, bool]] = {}  # (path, rule) -> line -> was needed
    for path, text in tree.items():
        for number, line in enumerate([] if THIS.match(path) else text.splitlines(), 1):
            if found := ALLOW.search(line):
                name, reason = found.groups()
                allowed.setdefault((path, name), {})[number] = False
                if name not in RULES:
                    problems.append(f"{path}:{number}: unknown rule `{name}`")
                if len(reason.replace("-->", "").strip()) < 10:
                    problems.append(f"{path}:{number}: an exception gives its reason")
    exempt = exemptions(tree)
    for name, run in RULES.items():
        for path, line, message in run(tree):
            if path in exempt.get(name, {}):
                exempt[name][path] = True
                continue
            here = allowed.get((path, name), {})
            covering = [n for n in here if line == 0 or n in (line, line - 1)]
            for number in covering:
                here[number] = True
            if not covering:
                problems.append(f"{path}:{line or 1}: {message} [{name}]")
    for (path, name), lines in allowed.items():
        for number, needed in lines.items():
            if name in RULES and not needed:
                problems.append(f"{path}:{number}: this exception to `{name}` has no effect")
    for name, paths in exempt.items():
        for path, needed in paths.items():
            if not needed:
                problems.append(f"{BUDGET}:1: `{path}` keeps the rule `{name}` now: remove it (--update)")
    return sorted(problems)


def exemptions(tree: Tree) -> dict[str, dict[str, bool]]:
    """Returns rule -> path -> was needed, for files that existed before the rule did."""
    listed = json.loads(tree[BUDGET])["exempt"] if BUDGET in tree else {}
    return {name: dict.fromkeys(paths, False) for name, paths in listed.items()}


def update(root: Path, tree: Tree) -> None:
    """Writes the budget with lower counts and without exemptions that are no longer needed."""
    budget = json.loads(tree[BUDGET])
    for name, count in language.COUNTS.items():
        found = len(list(count(tree)))
        budget["counts"][name] = min(found, budget["counts"].get(name, found))
    for name, paths in list(budget["exempt"].items()):
        violating = {finding.path for finding in RULES[name](tree)}
        budget["exempt"][name] = [path for path in paths if path in violating]
        if not budget["exempt"][name]:
            del budget["exempt"][name]
    (root / BUDGET).write_text(json.dumps(budget, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    match sys.argv[1:]:
        case ["--self-test"]:
            import tidy_test

            return tidy_test.run()
        case ["--list", name]:
            for use in language.COUNTS[name](read_tree(root)):
                print(f"{use.path}:{use.line}: {use.text}")
            return 0
        case ["--update"]:
            update(root, read_tree(root))
    problems = check(read_tree(root))
    print("\n".join(problems + [f"tidy: {len(problems)} problems, {len(RULES)} rules"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
