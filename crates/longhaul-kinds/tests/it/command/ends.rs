//! What becomes of a job whose program ends badly.

use crate::workshop::{Workshop, result};
use longhaul::{JobError, Status};
use longhaul_kinds::command::{CommandKind, Program};
use serde_json::json;

async fn error_of(shop: &Workshop, kind: CommandKind) -> JobError {
    let record = shop.run(kind, json!({})).await;
    assert_eq!(record.job.status, Status::Failed);
    record.job.error.unwrap()
}

#[tokio::test]
async fn exit_code_75_is_tried_again() {
    let shop = Workshop::new();
    let text = "[ $LONGHAUL_ATTEMPT = 3 ] || exit 75; echo $LONGHAUL_ATTEMPT";
    let record = shop.run(shop.single(text), json!({})).await;
    assert_eq!((result(&record), record.job.attempt), (json!(3), 3));
}

#[tokio::test]
async fn program_that_a_signal_killed_is_tried_again() {
    let shop = Workshop::new();
    let text = "[ $LONGHAUL_ATTEMPT = 1 ] && kill -KILL $$; echo $LONGHAUL_ATTEMPT";
    let record = shop.run(shop.single(text), json!({})).await;
    assert_eq!(result(&record), json!(2));
    assert!(record.attempts()[0].error.as_ref().unwrap().message.contains("killed by signal 9"));
}

#[tokio::test]
async fn other_exit_codes_fail_the_job_with_what_was_said_last() {
    let shop = Workshop::new();
    let text = "for n in $(seq 100); do echo line $n >&2; done; echo '::progress 1' >&2; exit 3";
    let error = error_of(&shop, shop.single(text)).await;
    assert_eq!((error.retryable, error.attempt), (false, 1));
    let (first, said) = error.message.split_once('\n').unwrap();
    assert!(first.ends_with("/program exited with status 3:"), "{first}");
    let expected: Vec<_> = (81..=100).map(|n| format!("line {n}")).collect();
    assert_eq!(said, expected.join("\n"));
}

#[tokio::test]
async fn output_that_is_not_json_is_quoted() {
    let shop = Workshop::new();
    let error = error_of(&shop, shop.single("echo Hello there")).await;
    assert_eq!((error.code.as_str(), error.retryable), ("bad-output", false));
    assert!(error.message.contains("\"Hello there\\n\""), "{error}");
}

#[tokio::test]
async fn output_that_is_not_text_is_refused() {
    let shop = Workshop::new();
    let error = error_of(&shop, shop.single(r"printf '\377\376'")).await;
    assert_eq!(error.code, "bad-output");
}

#[tokio::test]
async fn endless_output_is_cut_off_at_its_limit() {
    let shop = Workshop::new();
    let error = error_of(&shop, shop.single("exec yes").stdout_bytes_max(1_000_000)).await;
    assert_eq!((error.code.as_str(), error.retryable), ("limit", false));
    assert!(error.message.contains("1000000 bytes"), "{error}");
}

#[tokio::test]
async fn program_that_is_not_there_is_named() {
    let shop = Workshop::new();
    for program in ["./no-such-program", "no-such-program"] {
        let argv = vec![program.to_owned()];
        let kind = CommandKind::new("work", Program::Single { argv }, shop.work_root());
        let error = error_of(&shop, kind).await;
        assert_eq!((error.code.as_str(), error.retryable), ("cannot-start", false));
        assert!(error.message.contains("no-such-program: No such file"), "{error}");
    }
}

#[tokio::test]
async fn file_that_cannot_be_run_is_named() {
    let shop = Workshop::new();
    std::fs::write(shop.path("notes.txt"), "milk").unwrap();
    let argv = vec![shop.path("notes.txt").into_os_string().into_string().unwrap()];
    let kind = CommandKind::new("work", Program::Single { argv }, shop.work_root());
    let error = error_of(&shop, kind).await;
    assert!(error.message.contains("notes.txt: Permission denied"), "{error}");
}
