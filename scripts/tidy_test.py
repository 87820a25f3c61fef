"""Checks that each rule of tidy.py finds its planted violation and accepts what only resembles one."""

import json

import tidy

JOB = "crates/longhaul/src/job/status.rs"
ENGINE = "crates/longhaul/src/engine/run.rs"
TEST = "crates/longhaul/tests/it/claim.rs"
SQLITE = "crates/longhaul/src/store/sqlite/sql/claim.sql"
POSTGRES = "crates/longhaul/src/store/postgres/sql/settle.sql"
WHY = "-- Claims due jobs.\nselect 1;\n"
SOURCES = {
    "crates/longhaul/src/store/sqlite/statements.rs": '"claim.sql"',
    "crates/longhaul/src/store/postgres/statements.rs": '"claim.sql" "settle.sql"',
}
GLOSSARY = {
    "ARCHITECTURE.md": "## Glossary\n\n| word | meaning | instead of |\n| --- | --- | --- |\n"
    "| job | unit of work | `workflow`, `task_id` |\n| replica | one process | `worker_id` |\n"
    "| status | where a job is | `canceled` |\n| attempt | a try | `retry_count` |\n\n## Tests\n"
}
STORES = {store + name: "" for store in tidy.STORES for name in tidy.TWIN_FILES}
STORES["crates/longhaul/src/store.rs"] = ""


def budget(**counts: int) -> dict[str, str]:
    """Returns a tree with a budget: all counts are 0 but those given."""
    counts = {name.replace("_", "-"): count for name, count in counts.items()}
    return {tidy.BUDGET: json.dumps({"counts": counts, "exempt": {}})}


def exempt(rule: str, path: str) -> dict[str, str]:
    return {tidy.BUDGET: json.dumps({"counts": {}, "exempt": {rule: [path]}})}


def manifest(crate: str, dependency: str) -> str:
    return f'[package]\nname = "{crate}"\n\n[dependencies]\n{dependency} = "1"\n'


# Planted violations by rule, and trees without one.
CATCHES = {
    "file-length": [{JOB: "\n" * 501}],
    "folder-size": [{f"crates/longhaul/src/job/a{n}.rs": "" for n in range(26)}],
    "trait-size": [
        {ENGINE: "pub trait Store: Send {\n" + "    async fn a(&self);\n" * 17 + "}\n"},
        {ENGINE: "pub(crate) trait Store\nwhere\n    Self: Send,\n{\n" + "    fn a(&self);\n" * 17 + "}\n"},
    ],
    "twin-stores": [
        {path: text for path, text in STORES.items() if path != tidy.STORES[0] + "leases.rs"},
        STORES | {tidy.STORES[0] + "sql/claim/a.sql": WHY, tidy.STORES[0] + "claim.rs": "a"},
        STORES
        | {tidy.STORES[0] + "sql/claim/a.sql": WHY, tidy.STORES[1] + "sql/claim/b.sql": WHY}
        | {tidy.STORES[0] + "sql/settle/c.sql": WHY, tidy.STORES[1] + "sql/settle/a.sql": WHY}
        | {store + "claim.rs": "a b c" for store in tidy.STORES},
    ],
    "vocabulary": [
        {JOB: "let old_task_id = 1;", **GLOSSARY},
        {JOB: "struct WorkerId;", **GLOSSARY},
        {"docs/steps.md": "Workflows are made of steps.", **GLOSSARY},
        {"openapi.ts": "retryCount: number", **GLOSSARY},
        {SQLITE: "-- Why.\nselect state from jobs", **SOURCES},
        {"README.md": "the job was canceled", **GLOSSARY},
        {"ARCHITECTURE.md": "no table"},
    ],
    "documented-tests": [{tidy.PROMISES: "`job_is_kept`, `job_is_lost`", TEST: "async fn job_is_kept() {}"}],
    "documented-paths": [
        {"README.md": "see `engine/walk.rs`"},
        {"docs/steps.md": "see `engine/gone/`", ENGINE: ""},
        {"docs/steps.md": "[more](more.md), [there](steps.md)"},
        {"docs/design/a.md": "[up](../../ARCHITECTURE.md)"},
    ],
    "language-budget": [
        {JOB: "/// What it is.", **budget()},
        {JOB: "/// The status.", **budget(question_openings=1)},
        {"docs/steps.md": "Nobody knows.", **budget()},
        {JOB: "// for whoever waits", **budget()},
        {JOB: "struct Entry;", ENGINE: "pub(crate) enum Entry {}", **budget()},
        {JOB: "struct Told;", **budget()},
        {TEST: "enum Checked {}", **budget()},
    ],
    "sql-says-why": [{SQLITE: "select 1\n", **SOURCES}],
    "sql-one-statement": [{SQLITE: WHY + "select 2;\n", **SOURCES}],
    "sql-is-a-file": [
        {"crates/longhaul/src/store/sqlite/read.rs": 'db.prepare("SELECT id FROM jobs")'},
        {"crates/longhaul/src/store/sqlite/read.rs": 'db.execute("delete from jobs where 1")'},
    ],
    "sql-is-used": [{SQLITE: WHY}],
    "direction": [
        {JOB: "use tokio::sync::Notify;"},
        {JOB: "use crate::store::Store;"},
        {JOB: "use crate::{\n    clock::Clock,\n    engine::Engine,\n};"},
        {"crates/longhaul/src/store/types.rs": "use crate::engine::Engine;"},
        {ENGINE: "fn f(e: rusqlite::Error) {}"},
    ],
    "dependency-direction": [
        {"crates/longhaul/Cargo.toml": manifest("longhaul", "axum"), ENGINE: "axum"},
    ],
    "dependency-unused": [{"crates/longhaul/Cargo.toml": manifest("longhaul", "serde-x")}],
    "environment": [{ENGINE: 'std::env::var("HOME")'}],
    "library-prints": [{ENGINE: 'println!("done")'}],
    "ignored-test": [{TEST: "#[test]\n#[ignore]\nfn a() {}"}, {TEST: '#[ignore = "slow"]'}],
    "test-name": [{TEST: "fn test_claim() {}"}],
    "sleep": [
        {TEST: "tokio::time::sleep(SECOND).await;"},
        {ENGINE: "fn f() {}\n#[cfg(test)]\nmod tests {\n    std::thread::sleep(x);\n}"},
    ],
    "unfinished": [{ENGINE: "// TODO: later"}, {"Makefile": "# FIXME"}],
    "commented-code": [{ENGINE: "//pub mod sqlite;"}, {ENGINE: "    // let x = 1;"}],
}
PASSES = [
    {JOB: "\n" * 500},
    {JOB: "// See crate::store::Store for who calls this.\nuse crate::job::Name;"},
    {JOB: "let tasks = 1; // a tokio task\nstruct QueueState;"},
    {JOB: "fn on(self) {}\n#[cfg(test)]\nmod tests {\n    use crate::store::Store;\n}"},
    {JOB: "/// The status.\n/// What it becomes.", **budget()},
    {JOB: "/// What it is.", **budget(question_openings=1)},
    {JOB: "struct Speed;\nstruct ClaimedJob;\nstruct Error;", ENGINE: "struct Error;", **budget()},
    {JOB: "struct Status;", "crates/longhaul-client/src/wire/job.rs": "enum Status {}", **budget()},
    STORES | {store + "claim.rs": "struct Candidate;" for store in tidy.STORES} | budget(),
    {ENGINE: "pub trait Store: Send {\n" + "    fn a(&self) {\n        b();\n    }\n" * 16 + "}\n"},
    {JOB: "\n" * 501, **exempt("file-length", JOB)},
    {"README.md": "`engine/run.rs`, `src/engine/`, [it](crates/longhaul/src), [web](https://x.org/y)", ENGINE: ""},
    {"bench/peers.md": "DBOS workflows", **GLOSSARY},
    {"Cargo.toml": 'keywords = ["workflow"]', **GLOSSARY},
    {SQLITE: WHY, POSTGRES.replace("settle", "claim"): WHY, **SOURCES},
    {SQLITE: WHY, **SOURCES},
    {"crates/longhaul/src/store/sqlite/migrations/1.sql": "-- Why.\nselect 1;\nselect 2;\n"},
    {"crates/longhaul/src/store/sqlite/open.rs": 'db.pragma("PRAGMA synchronous = FULL")'},
    {"crates/longhaul-server/src/config.rs": 'std::env::var("LONGHAUL_LISTEN")'},
    {"crates/longhaul-server/src/cli/get.rs": 'println!("{job}")'},
    {ENGINE: "async fn run() { tokio::time::sleep(self.base).await; }"},
    {TEST: "ctx.sleep(HOUR).await;"},
    {ENGINE: "// Use what there is room for.\n// let-else reads badly here"},
    {"crates/longhaul/Cargo.toml": manifest("longhaul", "serde"), ENGINE: "use serde::Serialize;"},
]
ALLOWED = "// tidy: allow(sleep) the kernel gives no signal here\nthread::sleep(x);"
EXCEPTIONS = [
    ({TEST: ALLOWED}, None),
    ({TEST: ALLOWED.replace(" the kernel gives no signal here", "")}, "gives its reason"),
    ({TEST: ALLOWED.replace("\n", "\n\n")}, "has no effect"),
    ({TEST: "// tidy: allow(sleeping) a misspelt rule"}, "unknown rule"),
    ({JOB: "// tidy: allow(file-length) one table of codes\n" + "\n" * 501}, None),
    ({JOB: "", **exempt("file-length", JOB)}, "remove it (--update)"),
]


def run() -> int:
    failures = [f"rule `{name}` has no case" for name in tidy.RULES.keys() - CATCHES.keys()]
    for name, trees in CATCHES.items():
        for tree in trees:
            problems = tidy.check(tree)
            if not problems or not all(problem.endswith(f"[{name}]") for problem in problems):
                failures.append(f"{name} on {tree} gave {problems}")
    for tree in PASSES:
        if problems := tidy.check(tree):
            failures.append(f"{tree} gave {problems}")
    for tree, expected in EXCEPTIONS:
        problems = tidy.check(tree)
        if not (expected is None and not problems or expected and expected in "".join(problems)):
            failures.append(f"{tree} gave {problems}, expected {expected}")
    cases = sum(map(len, CATCHES.values())) + len(PASSES) + len(EXCEPTIONS)
    print("\n".join(failures + [f"tidy self-test: {cases - len(failures)} of {cases} cases hold"]))
    return 1 if failures else 0
