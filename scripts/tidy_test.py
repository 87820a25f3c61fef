"""Shows that each rule of tidy.py catches what it is for and leaves alone what it is not for."""

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


def manifest(crate: str, dependency: str) -> str:
    return f'[package]\nname = "{crate}"\n\n[dependencies]\n{dependency} = "1"\n'


# What a rule catches, and what looks like it and is fine.
CATCHES = {
    "file-length": [{JOB: "\n" * 501}],
    "vocabulary": [
        {JOB: "let old_task_id = 1;"},
        {JOB: "struct WorkerId;"},
        {"docs/steps.md": "Workflows are made of steps."},
        {"openapi.ts": "retryCount: number"},
        {SQLITE: "-- Why.\nselect state from jobs", **SOURCES},
        {"README.md": "the job was canceled"},
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
    {"bench/peers.md": "DBOS workflows"},
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
    ({TEST: ALLOWED.replace("\n", "\n\n")}, "excepts nothing"),
    ({TEST: "// tidy: allow(sleeping) there is no such rule"}, "there is no rule"),
    ({JOB: "// tidy: allow(file-length) one table of codes\n" + "\n" * 501}, None),
]


def run() -> int:
    failures = [f"no case for the rule `{name}`" for name in tidy.RULES.keys() - CATCHES.keys()]
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
