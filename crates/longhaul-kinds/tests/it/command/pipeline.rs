//! Pipelines.

use std::fs;

use crate::support::{TestPrograms, result, start};
use longhaul::Engine;
use longhaul::blob::{Blobs, Keyring};
use longhaul::job::Progress;
use serde_json::json;

#[tokio::test]
async fn pipeline_programs_get_earlier_outputs_in_order() {
    let programs = TestPrograms::new();
    let steps = vec![
        programs.step("zebra", "echo '{\"pages\": 1.50}'"),
        programs.step("ant", "echo 2"),
        programs.step("last", "exec cat"),
    ];
    let record = programs.run(programs.pipeline(steps), json!({})).await;
    let text = record.result.unwrap().as_str().to_owned();
    assert!(text.contains(r#""steps":{"zebra":{"pages": 1.50},"ant":2}"#), "{text}");
}

#[tokio::test]
async fn finished_pipeline_steps_are_not_run_again() {
    let programs = TestPrograms::new();
    let steps = vec![
        programs.step("extract", r#"echo ran >>"$DIR/extract.log"; echo '"text"'"#),
        programs.step(
            "index",
            r#"echo ran >>"$DIR/index.log"; [ $LONGHAUL_ATTEMPT = 3 ] || exit 75; exec cat"#,
        ),
    ];
    let record = programs.run(programs.pipeline(steps), json!({})).await;
    assert_eq!(result(&record)["steps"], json!({"extract": "text"}));
    assert_eq!(fs::read_to_string(programs.path("extract.log")).unwrap(), "ran\n");
    assert_eq!(fs::read_to_string(programs.path("index.log")).unwrap(), "ran\n".repeat(3));
}

#[tokio::test]
async fn each_pipeline_output_is_a_checkpoint() {
    let programs = TestPrograms::new();
    let steps = vec![programs.step("one", "echo 1"), programs.step("two", "echo 2")];
    let engine = start(programs.pipeline(steps).build().unwrap()).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    job.wait().await.unwrap();
    let steps = engine.steps(job.id()).await.unwrap();
    let stored: Vec<_> =
        steps.iter().map(|step| (step.name.as_str(), step.output.as_str())).collect();
    assert_eq!(stored, [("one", "1"), ("two", "2")]);
}

/// Regression: after a crash between this checkpoint and the end of the job, the next attempt replayed the last step and
/// completed the job without its artifacts.
#[tokio::test]
async fn last_pipeline_step_with_artifacts_is_stored_with_the_result() {
    let programs = TestPrograms::new();
    let steps = vec![
        programs.step("one", "echo 1"),
        programs.step("two", r#"echo x >"$LONGHAUL_ARTIFACTS/out.txt"; echo 2"#),
    ];
    let blobs = Blobs::open(&format!("file:{}", programs.path("blobs").display())).unwrap();
    let engine = Engine::builder().memory().blobs(blobs, Keyring::generate());
    let kind = programs.pipeline(steps).build().unwrap();
    let engine = engine.register(kind).start().await.unwrap();
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    let record = job.wait().await.unwrap();
    assert_eq!((record.result.unwrap().as_str(), record.job.artifacts.len()), ("2", 1));
    let steps = engine.steps(job.id()).await.unwrap();
    assert_eq!(steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["one"]);
    engine.stop().await;
}

#[tokio::test]
async fn failing_pipeline_step_is_named_in_the_error() {
    let programs = TestPrograms::new();
    let steps = vec![programs.step("one", "echo 1"), programs.step("two", "exit 1")];
    let error = programs.run(programs.pipeline(steps), json!({})).await.job.error.unwrap();
    assert!(error.message.starts_with("step \"two\": two exited with"), "{error}");
    assert!(!error.retryable);
}

#[tokio::test]
async fn pipeline_reports_steps_as_progress_by_default() {
    let programs = TestPrograms::new();
    let steps =
        vec![programs.step("one", "echo '::progress 5/9' >&2"), programs.step("two", "exit 0")];
    let record = programs.run(programs.pipeline(steps), json!({})).await;
    let message = Some("two".to_owned());
    assert_eq!(record.job.progress, Some(Progress { done: 2, total: Some(2), message }));
}

#[tokio::test]
async fn progress_reported_by_a_program_wins() {
    let programs = TestPrograms::new();
    let steps =
        vec![programs.step("one", "exit 0"), programs.step("two", "echo '::progress 5/9' >&2")];
    let record = programs.run(programs.pipeline(steps), json!({})).await;
    assert_eq!(record.job.progress, Some(Progress { done: 5, total: Some(9), message: None }));
}
