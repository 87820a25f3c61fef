//! Programs that fail.

use crate::support::{TestPrograms, result};
use longhaul::{JobError, Status};
use longhaul_kinds::command::{CommandKind, Program};
use serde_json::json;

async fn error_of(programs: &TestPrograms, kind: CommandKind) -> JobError {
    let record = programs.run(kind, json!({})).await;
    assert_eq!(record.job.status, Status::Failed);
    record.job.error.unwrap()
}

#[tokio::test]
async fn exit_code_75_is_retried() {
    let programs = TestPrograms::new();
    let text = "[ $LONGHAUL_ATTEMPT = 3 ] || exit 75; echo $LONGHAUL_ATTEMPT";
    let record = programs.run(programs.single(text), json!({})).await;
    assert_eq!((result(&record), record.job.attempt), (json!(3), 3));
}

#[tokio::test]
async fn program_killed_by_a_signal_is_retried() {
    let programs = TestPrograms::new();
    let text = "[ $LONGHAUL_ATTEMPT = 1 ] && kill -KILL $$; echo $LONGHAUL_ATTEMPT";
    let record = programs.run(programs.single(text), json!({})).await;
    assert_eq!(result(&record), json!(2));
    assert!(record.attempts()[0].error.as_ref().unwrap().message.contains("killed by signal 9"));
}

#[tokio::test]
async fn other_exit_codes_fail_the_job_with_the_log_tail() {
    let programs = TestPrograms::new();
    let text = "for n in $(seq 100); do echo line $n >&2; done; echo '::progress 1' >&2; exit 3";
    let error = error_of(&programs, programs.single(text)).await;
    assert_eq!((error.retryable, error.attempt), (false, 1));
    let (first, said) = error.message.split_once('\n').unwrap();
    assert_eq!(first, "program exited with status 3:", "without its folder");
    let expected: Vec<_> = (81..=100).map(|n| format!("line {n}")).collect();
    assert_eq!(said, expected.join("\n"));
}

#[tokio::test]
async fn invalid_json_output_is_quoted_in_the_error() {
    let programs = TestPrograms::new();
    let error = error_of(&programs, programs.single("echo Hello there")).await;
    assert_eq!((error.code.as_str(), error.retryable), ("bad-output", false));
    assert!(error.message.contains("\"Hello there\\n\""), "{error}");
}

#[tokio::test]
async fn non_utf8_output_is_rejected() {
    let programs = TestPrograms::new();
    let error = error_of(&programs, programs.single(r"printf '\377\376'")).await;
    assert_eq!(error.code, "bad-output");
}

#[tokio::test]
async fn endless_output_fails_at_its_limit() {
    let programs = TestPrograms::new();
    let error = error_of(&programs, programs.single("exec yes").stdout_bytes_max(1_000_000)).await;
    assert_eq!((error.code.as_str(), error.retryable), ("limit", false));
    assert!(error.message.contains("1000000 bytes"), "{error}");
}

#[tokio::test]
async fn missing_program_is_named_in_the_error() {
    let programs = TestPrograms::new();
    for program in ["./no-such-program", "no-such-program"] {
        let argv = vec![program.to_owned()];
        let kind = CommandKind::new("work", Program::Single { argv }, programs.work_root());
        let error = error_of(&programs, kind).await;
        assert_eq!((error.code.as_str(), error.retryable), ("cannot-start", false));
        assert!(error.message.starts_with("cannot start no-such-program: No such"), "{error}");
    }
}

#[tokio::test]
async fn non_executable_program_is_named_in_the_error() {
    let programs = TestPrograms::new();
    std::fs::write(programs.path("notes.txt"), "milk").unwrap();
    let argv = vec![programs.path("notes.txt").into_os_string().into_string().unwrap()];
    let kind = CommandKind::new("work", Program::Single { argv }, programs.work_root());
    let error = error_of(&programs, kind).await;
    assert!(error.message.contains("notes.txt: Permission denied"), "{error}");
}
