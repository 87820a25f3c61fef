//! Programs one after the other.

use std::fs;

use crate::workshop::{Workshop, result, start};
use longhaul::job::Progress;
use serde_json::json;

#[tokio::test]
async fn later_programs_get_the_outputs_so_far_in_order() {
    let shop = Workshop::new();
    let steps = vec![
        shop.step("zebra", "echo '{\"pages\": 1.50}'"),
        shop.step("ant", "echo 2"),
        shop.step("last", "exec cat"),
    ];
    let record = shop.run(shop.pipeline(steps), json!({})).await;
    let text = record.result.unwrap().as_str().to_owned();
    assert!(text.contains(r#""steps":{"zebra":{"pages": 1.50},"ant":2}"#), "{text}");
}

#[tokio::test]
async fn finished_steps_are_not_run_again() {
    let shop = Workshop::new();
    let steps = vec![
        shop.step("extract", r#"echo ran >>"$SHOP/extract.log"; echo '"text"'"#),
        shop.step(
            "index",
            r#"echo ran >>"$SHOP/index.log"; [ $LONGHAUL_ATTEMPT = 3 ] || exit 75; exec cat"#,
        ),
    ];
    let record = shop.run(shop.pipeline(steps), json!({})).await;
    assert_eq!(result(&record)["steps"], json!({"extract": "text"}));
    assert_eq!(fs::read_to_string(shop.path("extract.log")).unwrap(), "ran\n");
    assert_eq!(fs::read_to_string(shop.path("index.log")).unwrap(), "ran\n".repeat(3));
}

#[tokio::test]
async fn each_output_is_a_checkpoint() {
    let shop = Workshop::new();
    let steps = vec![shop.step("one", "echo 1"), shop.step("two", "echo 2")];
    let engine = start(shop.pipeline(steps).build().unwrap()).await;
    let job = engine.submit_raw("work", &json!({})).await.unwrap();
    job.wait().await.unwrap();
    let steps = engine.steps(job.id()).await.unwrap();
    let stored: Vec<_> =
        steps.iter().map(|step| (step.name.as_str(), step.output.as_str())).collect();
    assert_eq!(stored, [("one", "1"), ("two", "2")]);
}

#[tokio::test]
async fn failing_step_is_named() {
    let shop = Workshop::new();
    let steps = vec![shop.step("one", "echo 1"), shop.step("two", "exit 1")];
    let error = shop.run(shop.pipeline(steps), json!({})).await.job.error.unwrap();
    assert!(error.message.starts_with("step \"two\": /"), "{error}");
    assert!(!error.retryable);
}

#[tokio::test]
async fn steps_are_the_progress_of_programs_that_tell_none() {
    let shop = Workshop::new();
    let steps = vec![shop.step("one", "echo '::progress 5/9' >&2"), shop.step("two", "exit 0")];
    let record = shop.run(shop.pipeline(steps), json!({})).await;
    let message = Some("two".to_owned());
    assert_eq!(record.job.progress, Some(Progress { done: 2, total: Some(2), message }));
}

#[tokio::test]
async fn progress_that_a_program_tells_stands() {
    let shop = Workshop::new();
    let steps = vec![shop.step("one", "exit 0"), shop.step("two", "echo '::progress 5/9' >&2")];
    let record = shop.run(shop.pipeline(steps), json!({})).await;
    assert_eq!(record.job.progress, Some(Progress { done: 5, total: Some(9), message: None }));
}
