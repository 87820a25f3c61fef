//! The kind `demo`: for the quick start, the load generator and tests.

use std::time::Duration;

use longhaul::job::{Json, parse_duration};
use longhaul::{Ctx, JobError, Kind};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The kind `demo`, which is always there.
///
/// Its input is `{"steps"?: 1, "sleep"?: "2s", "fail"?: "text", "result"?: any}`. It runs `steps`
/// checkpointed steps (1 if it is not said) that sleep `sleep` each (not at all if it is not said)
/// and reports progress after each. Then it fails with `fail`, retryably, or returns `result`, or
/// its input if there is none.
pub fn demo() -> Kind {
    Kind::new("demo", run)
        .accepts_payload(false)
        .description("does what its input says: steps, sleep, fail, result")
        .input_schema(include_str!("demo/input.schema.json"))
}

async fn run(ctx: Ctx, Given { raw, wish }: Given) -> Result<Json, JobError> {
    let total = wish.steps;
    for n in 1..=total {
        ctx.step(format!("step-{n}"), || nap(wish.sleep)).await?;
        ctx.progress_with(n.into(), u64::from(total), format!("step {n} of {total}"));
    }
    match wish.fail {
        Some(text) => Err(JobError::retryable(text)),
        None => Ok(wish.result.unwrap_or(raw)),
    }
}

/// Holds its worker, unlike `ctx.sleep`: it stands for work. A cancel ends the step around it.
async fn nap(length: Duration) -> Result<(), JobError> {
    // Even the shortest timer costs a millisecond, which a load test would measure.
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
    Ok(())
}

/// The input as it came, to be returned as it came, and what it says.
struct Given {
    raw: Json,
    wish: Wish,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wish {
    steps: u32,
    #[serde(deserialize_with = "duration")]
    sleep: Duration,
    fail: Option<String>,
    #[serde(deserialize_with = "even_null")]
    result: Option<Json>,
}

impl Default for Wish {
    fn default() -> Self {
        Self { steps: 1, sleep: Duration::ZERO, fail: None, result: None }
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        // `null` is what a submission without any input has.
        let wish: Option<Wish> = serde_json::from_str(raw.as_str()).map_err(D::Error::custom)?;
        Ok(Self { raw, wish: wish.unwrap_or_default() })
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// `"result": null` asks for null, and not for the input.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
