use longhaul::job::Json;
use longhaul::store::StoreError;
use longhaul::{Ctx, Engine, JobError, Kind, SubmitError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Counter, echo, still};

#[derive(Serialize, Deserialize)]
struct Document {
    title: String,
    pages: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Summary {
    headline: String,
}

#[tokio::test]
async fn typed_input_comes_back_as_typed_result() {
    let (builder, _) = still();
    let engine = builder
        .kind("summarize", |_ctx: Ctx, doc: Document| async move {
            Ok::<_, JobError>(Summary { headline: format!("{}, {} pages", doc.title, doc.pages) })
        })
        .start()
        .await
        .unwrap();
    let document = Document { title: "Moby-Dick".into(), pages: 635 };
    let job = engine.submit_raw("summarize", &document).await.unwrap();
    let summary: Summary = job.result_as().await.unwrap();
    assert_eq!(summary, Summary { headline: "Moby-Dick, 635 pages".into() });
}

#[tokio::test]
async fn hundred_submissions_of_one_key_run_once() {
    let runs = Counter::default();
    let (builder, _) = still();
    let engine = builder
        .kind("count", {
            let runs = runs.clone();
            move |_ctx: Ctx, (): ()| {
                runs.up();
                async { Ok::<_, JobError>(()) }
            }
        })
        .start()
        .await
        .unwrap();
    let submit =
        |engine: Engine| async move { engine.submit_raw("count", &()).key("once").await.unwrap() };
    let submissions: Vec<_> = (0..100).map(|_| tokio::spawn(submit(engine.clone()))).collect();
    let mut jobs = Vec::new();
    for submission in submissions {
        jobs.push(submission.await.unwrap());
    }
    assert_eq!(jobs.iter().filter(|job| job.created()).count(), 1);
    for job in &jobs {
        assert_eq!(job.id(), jobs[0].id());
        job.result_as::<()>().await.unwrap();
    }
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn idempotency_key_reused_with_another_input_is_rejected() {
    let (builder, _) = still();
    let engine = builder.register(echo()).start().await.unwrap();
    let first = engine.submit_raw("echo", "a").key("k").await.unwrap();
    let refused = engine.submit_raw("echo", "b").key("k").await.unwrap_err();
    let SubmitError::Store(StoreError::KeyReused { existing }) = refused else {
        panic!("{refused}");
    };
    assert_eq!(existing, first.id());
}

#[tokio::test]
async fn unknown_kind_names_the_known_ones() {
    let (builder, _) = still();
    let engine = builder
        .kind("resize", |_ctx: Ctx, (): ()| async { Ok::<_, JobError>(()) })
        .start()
        .await
        .unwrap();
    let error = engine.submit_raw("resizes", &()).await.unwrap_err();
    assert_eq!(error.to_string(), r#"unknown kind "resizes"; known kinds: resize"#);
}

#[tokio::test]
async fn submission_over_a_limit_is_rejected_and_leaves_its_key_free() {
    let (builder, _) = still();
    let engine = builder.register(echo()).start().await.unwrap();
    let large = "x".repeat(engine.limits().input_bytes_max);
    let error = engine.submit_raw("echo", &large).key("k").await.unwrap_err();
    assert!(
        matches!(&error, SubmitError::Limit(limit) if limit.name == "input_bytes_max"),
        "{error}"
    );
    assert!(engine.submit_raw("echo", "x").key("k").await.unwrap().created());
    for bad_key in ["", "two words", "schlüssel", &"k".repeat(256)] {
        let error = engine.submit_raw("echo", "x").key(bad_key).await.unwrap_err();
        assert!(matches!(error, SubmitError::Invalid(_)), "{bad_key}: {error}");
    }
}

#[tokio::test]
async fn batch_accepts_and_rejects_each_job_individually() {
    let (builder, _) = still();
    let engine = builder.register(echo()).start().await.unwrap();
    let batch = vec![
        engine.submit_raw("echo", "a").key("k"),
        engine.submit_raw("nothing", "b"),
        engine.submit_raw("echo", "c").key("k"),
        engine.submit_raw("echo", "d"),
    ];
    let answers = engine.submit_all(batch).await;
    assert!(answers[0].as_ref().unwrap().created());
    assert!(matches!(answers[1], Err(SubmitError::UnknownKind { .. })));
    assert!(matches!(answers[2], Err(SubmitError::Store(StoreError::KeyReused { .. }))));
    assert_eq!(answers[3].as_ref().unwrap().result_as::<String>().await.unwrap(), "d");
}

/// Only the kind's idempotency fields are compared, and only for that kind.
#[tokio::test]
async fn idempotency_fields_decide_whether_submissions_are_equal() {
    fn order(input: &Json) -> Json {
        let value: Value = input.to().unwrap();
        Json::from_value(&value["order"]).unwrap()
    }
    let echo = |_: Ctx, input: Json| async move { Ok::<_, JobError>(input) };
    let engine = Engine::builder()
        .register(Kind::new("orders", echo).idempotency_fields(order))
        .register(Kind::new("plain", echo))
        .start()
        .await
        .unwrap();
    let submit = async |kind: &str, input: Value| engine.submit_raw(kind, &input).key(kind).await;
    let first = submit("orders", json!({"order": 7, "trace": "a"})).await.unwrap();
    let again = submit("orders", json!({"trace": "b", "order": 7})).await.unwrap();
    assert_eq!((again.id(), again.created()), (first.id(), false));
    let other = json!({"order": 8, "trace": "a"});
    assert!(submit("orders", other.clone()).await.is_err());
    let known = async |input: &Value| {
        let input = Json::from_value(input).unwrap();
        engine.find_by_key("orders", Some("orders"), Some(&input), None).await
    };
    assert_eq!(known(&json!({"order": 7})).await.unwrap().unwrap().id(), first.id());
    assert!(known(&other).await.is_err());
    submit("plain", json!({"order": 7, "trace": "a"})).await.unwrap();
    assert!(submit("plain", json!({"order": 7, "trace": "b"})).await.is_err());
    engine.stop().await;
}

#[tokio::test]
async fn input_can_depend_on_the_job_id() {
    let echo = |_: Ctx, input: Json| async move { Ok::<_, JobError>(input) };
    let engine = Engine::builder().kind("echo", echo).start().await.unwrap();
    let job = engine.submit_with("echo", |id| Json::from_value(&id.to_string())).await.unwrap();
    assert_eq!(job.result_as::<String>().await.unwrap(), job.id().to_string());
    engine.stop().await;
}
