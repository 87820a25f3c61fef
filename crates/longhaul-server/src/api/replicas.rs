//! Replicas: the processes that share a store.

use axum::Json;
use longhaul::store::{Heartbeat, ReplicaState};
use longhaul_client::wire::{Replica, ReplicaList};
use utoipa_axum::routes;

use crate::api::http::caller::{Admin, Caller, Inspect};
use crate::api::http::load_shedding::Class;
use crate::api::http::openapi::ReadProblems;
use crate::api::http::routes::Routes;
use crate::problem::Result;
use crate::to_wire;

pub(super) fn router() -> Routes {
    Routes::new().route::<Inspect>(Class::Normal, routes!(list_replicas))
}

/// List the replicas that share this server's store.
///
/// A replica that shuts down is removed at once. One without a heartbeat is reported as dead after 15 seconds
/// and removed after a day.
#[utoipa::path(
    get, path = "/v1/replicas", operation_id = "listReplicas", tag = "operations",
    responses((status = 200, description = "The replicas, by name.", body = ReplicaList), ReadProblems),
)]
async fn list_replicas(caller: Caller<Inspect>) -> Result<Json<ReplicaList>> {
    Ok(Json(ReplicaList { replicas: list(&caller).await? }))
}

/// Returns the replicas by name. Only an administrator sees their hosts and process ids, because tenants need not know
/// the machines.
pub(crate) async fn list(caller: &Caller<Inspect>) -> Result<Vec<Replica>> {
    let mut replicas: Vec<Replica> =
        caller.engine.replicas().await?.into_iter().map(to_wire).collect();
    if !caller.may::<Admin>() {
        for replica in &mut replicas {
            (replica.host, replica.pid) = (None, None);
        }
    }
    Ok(replicas)
}

fn to_wire(replica: ReplicaState) -> Replica {
    let ReplicaState { heartbeat, started_at, seen_at, alive } = replica;
    let Heartbeat { replica, role, version, host, pid, kinds, running, concurrency, .. } =
        heartbeat;
    Replica {
        name: replica,
        role,
        version,
        host: Some(host),
        pid: Some(pid),
        kinds: kinds.iter().map(ToString::to_string).collect(),
        running,
        concurrency,
        started_at: to_wire::instant(started_at),
        seen_at: to_wire::instant(seen_at),
        alive,
    }
}
