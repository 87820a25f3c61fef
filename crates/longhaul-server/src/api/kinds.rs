//! Kinds of jobs.

use axum::Json;
use longhaul_client::DurationText;
use longhaul_client::wire::{Kind, KindList};
use utoipa_axum::routes;

use crate::api::http::caller::{Caller, Inspect};
use crate::api::http::load_shedding::Class;
use crate::api::http::openapi::ReadProblems;
use crate::api::http::routes::Routes;
use crate::problem::Result;

pub(super) fn router() -> Routes {
    Routes::new().route::<Inspect>(Class::Normal, routes!(list_kinds))
}

/// List the kinds of jobs that the replicas of this server run.
#[utoipa::path(
    get, path = "/v1/kinds", operation_id = "listKinds", tag = "kinds",
    responses((status = 200, description = "The kinds, by name.", body = KindList), ReadProblems),
)]
async fn list_kinds(caller: Caller<Inspect>) -> Result<Json<KindList>> {
    let kinds = caller.engine.all_kinds().await?;
    Ok(Json(KindList { kinds: kinds.iter().map(to_wire).collect() }))
}

fn to_wire(kind: &longhaul::Kind) -> Kind {
    let concurrency =
        kind.settings().concurrency.map(|jobs| u32::try_from(jobs).unwrap_or(u32::MAX));
    Kind {
        name: kind.name().to_owned(),
        queue: kind.settings().queue.clone().to_string(),
        max_attempts: kind.settings().retry.max_attempts,
        timeout: Some(DurationText(kind.settings().timeout)),
        concurrency,
    }
}
