//! A web application with durable background work and a periodic job inside.
//!
//! `cargo run --example axum_app`, then
//! `curl -X POST localhost:3000/reports -d '{"city":"Oslo"}' -H 'content-type: application/json'`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{StreamExt as _, TryStreamExt as _};
use longhaul::store::Filter;
use longhaul::{Ctx, Engine, JobArgs, JobId, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
struct Report {
    city: String,
}

impl JobArgs for Report {
    const KIND: &'static str = "report";
    type Output = String;
}

#[derive(Serialize, Deserialize)]
struct CleanUp {
    tick: u64,
}

impl JobArgs for CleanUp {
    const KIND: &'static str = "clean-up";
    type Output = u64;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder()
        .handler(write_report)
        .handler(async |_ctx: Ctx, args: CleanUp| Ok(args.tick))
        .start()
        .await?;
    tokio::spawn(submit_periodically(engine.clone(), Duration::from_secs(1)));

    let app = Router::new()
        .route("/reports", post(submit))
        .route("/reports/{id}", get(show))
        .route("/ticks", get(ticks))
        .with_state(engine);
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// Submits a job for each period. The idempotency key is the period's number, so that several
/// replicas of this program together submit one job.
async fn submit_periodically(engine: Engine, every: Duration) {
    let mut timer = tokio::time::interval(every);
    loop {
        timer.tick().await;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let tick = since_1970.as_secs() / every.as_secs().max(1);
        if let Err(error) = engine.submit(CleanUp { tick }).key(format!("clean-up-{tick}")).await {
            eprintln!("cannot submit a periodic job: {error}");
        }
    }
}

async fn write_report(ctx: Ctx, report: Report) -> longhaul::Result<String> {
    let city = &report.city;
    let letters = ctx.step_value("count", async || city.chars().count()).await?;
    ctx.step_value("write", async || format!("{city} has {letters} letters")).await
}

type Response = Result<(StatusCode, Json<Value>), (StatusCode, String)>;

async fn submit(State(engine): State<Engine>, Json(report): Json<Report>) -> Response {
    let job = engine.submit(report).await.map_err(bad_request)?;
    Ok((StatusCode::ACCEPTED, Json(json!({"id": job.id()}))))
}

async fn show(State(engine): State<Engine>, Path(id): Path<JobId>) -> Response {
    let record = engine.job(id).await.map_err(bad_request)?;
    let body = json!({"status": record.job.status, "report": record.result});
    Ok((StatusCode::OK, Json(body)))
}

async fn ticks(State(engine): State<Engine>) -> Response {
    let filter = Filter {
        statuses: vec![Status::Completed],
        kind: Some(CleanUp::KIND.try_into().map_err(bad_request)?),
        ..Filter::default()
    };
    let latest: Vec<_> = engine.jobs(filter).take(10).try_collect().await.map_err(bad_request)?;
    Ok((StatusCode::OK, Json(json!({"latest": latest.len()}))))
}

fn bad_request(error: impl std::error::Error) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, error.to_string())
}
