//! A web application with durable background work and a periodic job inside.
//!
//! `cargo run --example axum_app`, then
//! `curl -X POST localhost:3000/reports -d '{"city":"Oslo"}' -H 'content-type: application/json'`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use longhaul::job::Name;
use longhaul::store::{Filter, PageRequest};
use longhaul::{Ctx, Engine, JobError, JobId, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
struct Report {
    city: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder()
        .kind("report", write_report)
        .kind("tidy-up", |_ctx: Ctx, tick: u64| async move { Ok::<_, JobError>(tick) })
        .start()
        .await?;
    tokio::spawn(periodically(engine.clone(), Duration::from_secs(1)));

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

/// Submits a job for each period. The key is the period's number, so that of many replicas that do
/// this only one gets a new job.
async fn periodically(engine: Engine, every: Duration) {
    let mut timer = tokio::time::interval(every);
    loop {
        timer.tick().await;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let tick = since_1970.as_secs() / every.as_secs().max(1);
        if let Err(error) = engine.submit_raw("tidy-up", &tick).key(format!("tidy-up-{tick}")).await
        {
            eprintln!("cannot submit a periodic job: {error}");
        }
    }
}

async fn write_report(ctx: Ctx, report: Report) -> Result<String, JobError> {
    let letters =
        ctx.step("count", || async { Ok::<_, JobError>(report.city.chars().count()) }).await?;
    ctx.step("write", || async {
        Ok::<_, JobError>(format!("{} has {letters} letters", report.city))
    })
    .await
}

async fn submit(State(engine): State<Engine>, Json(report): Json<Report>) -> Answer {
    let job = engine.submit_raw("report", &report).await.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, Json(json!({"id": job.id()}))))
}

async fn show(State(engine): State<Engine>, Path(id): Path<JobId>) -> Answer {
    let record = engine.job(id).await.map_err(refused)?;
    let body = json!({"status": record.job.status, "report": record.result});
    Ok((StatusCode::OK, Json(body)))
}

async fn ticks(State(engine): State<Engine>) -> Answer {
    let filter = Filter {
        statuses: vec![Status::Completed],
        kind: Some(Name::new("tidy-up").map_err(refused)?),
        ..Filter::default()
    };
    let page = PageRequest { limit: 10, before: None };
    let ticks = engine.jobs(&filter, &page).await.map_err(refused)?;
    Ok((StatusCode::OK, Json(json!({"latest": ticks.jobs.len()}))))
}

type Answer = Result<(StatusCode, Json<Value>), (StatusCode, String)>;

fn refused(error: impl std::error::Error) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, error.to_string())
}
