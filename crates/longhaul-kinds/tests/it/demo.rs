//! The kind `demo`.

use crate::support::{result, running, start};
use longhaul::job::{Json, Progress, Record};
use longhaul::{JobError, Status};
use longhaul_kinds::demo;
use serde_json::{Value, json};

async fn run(input: &Json) -> Record {
    let engine = start(demo()).await;
    engine.submit_raw("demo", input).await.unwrap().wait().await.unwrap()
}

async fn run_value(input: Value) -> Record {
    run(&Json::from_value(&input).unwrap()).await
}

#[tokio::test]
async fn demo_returns_its_input_verbatim() {
    let input = Json::from_text(r#"{ "steps": 2,  "sleep":"1ms" }"#).unwrap();
    assert_eq!(run(&input).await.result, Some(input));
}

#[tokio::test]
async fn demo_without_input_runs_one_step() {
    for nothing in [json!({}), json!(null)] {
        let record = run_value(nothing.clone()).await;
        assert_eq!(result(&record), nothing);
        assert_eq!(record.job.progress.unwrap().done, 1);
    }
}

#[tokio::test]
async fn demo_returns_a_null_result() {
    for wanted in [json!(null), json!({"deep": [1, 2]}), json!(false)] {
        assert_eq!(result(&run_value(json!({"result": wanted})).await), wanted);
    }
}

#[tokio::test]
async fn demo_stores_and_reports_each_step() {
    let engine = start(demo()).await;
    let job = engine.submit_raw("demo", &json!({"steps": 3})).await.unwrap();
    let record = job.wait().await.unwrap();
    let message = Some("step 3 of 3".to_owned());
    assert_eq!(record.job.progress, Some(Progress { done: 3, total: Some(3), message }));
    let steps = engine.steps(job.id()).await.unwrap();
    let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["step-1", "step-2", "step-3"]);
}

#[tokio::test]
async fn demo_failure_is_retryable() {
    let record = run_value(json!({"fail": "on purpose"})).await;
    let JobError { message, retryable, attempt, .. } = record.job.error.unwrap();
    assert_eq!((message.as_str(), retryable, attempt), ("on purpose", true, 3));
}

#[tokio::test]
async fn invalid_demo_input_fails_without_retry() {
    for (input, why) in [
        (json!({"stepps": 3}), "stepps"),
        (json!({"sleep": "soon"}), "soon"),
        (json!({"steps": -1}), "-1"),
        (json!("hello"), "hello"),
    ] {
        let error = run_value(input).await.job.error.unwrap();
        assert_eq!((error.code.as_str(), error.attempt), ("bad-input", 1), "{error}");
        assert!(error.message.contains(why), "{error}");
    }
}

#[tokio::test]
async fn sleeping_demo_can_be_cancelled() {
    let engine = start(demo()).await;
    let job = engine.submit_raw("demo", &json!({"sleep": "1h"})).await.unwrap();
    running(&job).await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Cancelled);
}
