//! Standard streams of programs.

use crate::support::{TestPrograms, result};
use longhaul::job::Progress;
use serde_json::json;

#[tokio::test]
async fn program_gets_input_steps_and_job_on_stdin() {
    let programs = TestPrograms::new();
    let record = programs.run(programs.single("exec cat"), json!({"width": 3})).await;
    let job = &record.job;
    assert_eq!(
        result(&record),
        json!({
            "input": {"width": 3},
            "steps": {},
            "job": {
                "jobId": job.id, "kind": "work", "queue": "default", "attempt": 1,
                "maxAttempts": 3, "labels": {}, "idempotencyKey": null,
                "createdAt": job.created_at,
            },
        })
    );
}

#[tokio::test]
async fn empty_stdout_is_the_result_null() {
    let programs = TestPrograms::new();
    assert_eq!(result(&programs.run(programs.single("exit 0"), json!({})).await), json!(null));
}

#[tokio::test]
async fn last_progress_line_sets_the_progress() {
    let programs = TestPrograms::new();
    let text = "echo '::progress 1' >&2; echo log >&2; printf '::progress 3/10 almost there' >&2";
    let record = programs.run(programs.single(text), json!({})).await;
    let message = Some("almost there".to_owned());
    assert_eq!(record.job.progress, Some(Progress { done: 3, total: Some(10), message }));
}

#[tokio::test]
async fn every_phase_line_is_an_event() {
    let programs = TestPrograms::new();
    let text = "echo '::phase loading' >&2; echo '::phase drawing' >&2";
    let record = programs.run(programs.single(text), json!({})).await;
    let phases: Vec<_> = record.history.iter().filter_map(|event| event.phase.as_deref()).collect();
    assert!(phases.starts_with(&["loading", "drawing"]), "{phases:?}");
}

#[tokio::test]
async fn large_input_and_output_flow_concurrently() {
    let programs = TestPrograms::new();
    let input = json!("x".repeat(1_048_000));
    let record = programs.run(programs.single("exec cat"), input.clone()).await;
    assert_eq!(result(&record)["input"], input);
}

#[tokio::test]
async fn program_that_writes_before_it_reads_does_not_deadlock() {
    let programs = TestPrograms::new();
    let noise = "head -c 1000000 /dev/zero | tr '\\0' 'x'";
    let text = format!(r#"printf '"'; {noise}; printf '"'; {noise} >&2; cat >/dev/null"#);
    let record = programs.run(programs.single(&text), json!("y".repeat(1_000_000))).await;
    assert_eq!(result(&record).as_str().unwrap().len(), 1_000_000);
}

#[tokio::test]
async fn program_need_not_read_its_input() {
    let programs = TestPrograms::new();
    let record =
        programs.run(programs.single("exec <&-; echo 7"), json!("y".repeat(1_000_000))).await;
    assert_eq!(result(&record), json!(7));
}
