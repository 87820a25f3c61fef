//! The kind `demo`, for the quick start, the load generator and tests.

use std::time::Duration;

use longhaul::job::{Json, parse_duration};
use longhaul::{Ctx, JobError, Kind};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The built-in kind `demo`.
///
/// Its input is `{"steps"?: 1, "sleep"?: "2s", "fail"?: "text", "result"?: any}`. It runs `steps` checkpointed
/// steps (default 1) that sleep for `sleep` each (default 0) and reports progress after each. Then it fails with
/// the retryable error `fail`, or returns `result`, which defaults to its input.
pub fn demo() -> Kind {
    Kind::new("demo", run)
        .accepts_payload(false)
        .description("runs steps, sleeps, fails or returns a result, as its input specifies")
        .input_schema(include_str!("demo/input.schema.json"))
}

async fn run(ctx: Ctx, DemoInput { raw, options }: DemoInput) -> Result<Json, JobError> {
    let total = options.steps;
    for n in 1..=total {
        ctx.step(format!("step-{n}"), || nap(options.sleep)).await?;
        ctx.progress_with(n.into(), u64::from(total), format!("step {n} of {total}"));
    }
    match options.fail {
        Some(text) => Err(JobError::retryable(text)),
        None => Ok(options.result.unwrap_or(raw)),
    }
}

/// Occupies its worker slot, unlike `ctx.sleep`, because it simulates work. Cancellation drops it.
async fn nap(length: Duration) -> Result<(), JobError> {
    // Even the shortest timer takes a millisecond, which would distort a load test.
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
    Ok(())
}

/// Verbatim input, which may be the result, and its options.
struct DemoInput {
    raw: Json,
    options: DemoOptions,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DemoOptions {
    steps: u32,
    #[serde(deserialize_with = "duration")]
    sleep: Duration,
    fail: Option<String>,
    #[serde(deserialize_with = "some")]
    result: Option<Json>,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self { steps: 1, sleep: Duration::ZERO, fail: None, result: None }
    }
}

impl<'de> Deserialize<'de> for DemoInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        // A submission without an input has `null`.
        let options: Option<DemoOptions> =
            serde_json::from_str(raw.as_str()).map_err(D::Error::custom)?;
        Ok(Self { raw, options: options.unwrap_or_default() })
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Distinguishes `"result": null` from a missing result.
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
