//! Registry of kinds that other replicas declare.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::Mutex;

use super::{Engine, EngineState, Kind, SubmitError};
use crate::job::{Name, Timestamp};
use crate::store::{REPLICA_FORGOTTEN_AFTER, ReplicaState, StoreError};

const CACHE_TTL: Duration = Duration::from_secs(5);

/// Cache of the kinds in other replicas' heartbeats.
#[derive(Debug, Default)]
pub(crate) struct RemoteKinds {
    /// Held while the store is read, so that concurrent callers share one query.
    cache: Mutex<RemoteKindCache>,
}

#[derive(Debug, Default)]
struct RemoteKindCache {
    read_at: Option<Timestamp>,
    /// Each kind with the time at which a replica last declared it. Kept as long as a silent
    /// replica, so that jobs are accepted while all workers are replaced.
    kinds: BTreeMap<Name, Timestamp>,
}

impl RemoteKindCache {
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.read_at.is_some_and(|at| now.since(at) < CACHE_TTL)
    }

    fn update(&mut self, replicas: Vec<ReplicaState>, now: Timestamp) {
        self.read_at = Some(now);
        for kind in replicas.into_iter().flat_map(|known| known.heartbeat.kinds) {
            self.kinds.insert(kind, now);
        }
        self.kinds.retain(|_, known_at| now.since(*known_at) < REPLICA_FORGOTTEN_AFTER);
    }
}

impl RemoteKinds {
    async fn kinds(&self, shared: &EngineState) -> Result<Vec<Name>, StoreError> {
        let mut known = self.cache.lock().await;
        let now = shared.clock.now();
        if !known.is_fresh(now) {
            match shared.store.replicas().await {
                Ok(replicas) => known.update(replicas, now),
                // A store of one process has no other replicas.
                Err(_) if shared.store.change_notifications().is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(known.kinds.keys().cloned().collect())
    }
}

impl Engine {
    /// Returns a kind that this engine does not declare.
    pub(super) async fn remote_kind(&self, kind: &str) -> Result<Kind, SubmitError> {
        let known = self.all_kinds().await?;
        if let Some(found) = known.iter().find(|known| known.name() == kind) {
            return Ok(found.clone());
        }
        let known = known.iter().map(|kind| kind.name().to_owned()).collect();
        Err(SubmitError::UnknownKind { kind: kind.to_owned(), known })
    }

    /// Returns the kinds of this engine and of other replicas, sorted by name. Of other replicas'
    /// kinds only the name is known: their settings are the defaults.
    pub async fn all_kinds(&self) -> Result<Vec<Kind>, StoreError> {
        let elsewhere = self.shared.remote_kinds.kinds(&self.shared).await?;
        let here = &self.shared.kinds;
        let others = elsewhere.into_iter().filter(|name| !here.contains_key(name));
        let mut kinds: Vec<Kind> = here.values().map(|kind| Kind::clone(kind)).collect();
        kinds.extend(others.map(|name| Kind::remote(name.as_str())));
        kinds.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Heartbeat;

    fn declaring(kind: &str) -> ReplicaState {
        let beat = Heartbeat {
            replica: "a".to_owned(),
            run: 1,
            role: "worker".to_owned(),
            version: String::new(),
            host: String::new(),
            pid: 1,
            process: String::new(),
            kinds: vec![Name::new(kind).unwrap()],
            running: 0,
            concurrency: 1,
            silent_after: Duration::from_secs(15),
        };
        let at = Timestamp::from_millis(0);
        ReplicaState { heartbeat: beat, started_at: at, seen_at: at, alive: false }
    }

    #[test]
    fn kind_outlives_its_last_replica_by_a_day() {
        let (mut known, start) = (RemoteKindCache::default(), Timestamp::from_millis(0));
        assert!(!known.is_fresh(start));
        known.update(vec![declaring("resize")], start);
        assert!(known.is_fresh(start) && !known.is_fresh(start.after(CACHE_TTL)));
        known.update(Vec::new(), start.after(REPLICA_FORGOTTEN_AFTER.saturating_sub(CACHE_TTL)));
        assert_eq!(known.kinds.len(), 1);
        known.update(Vec::new(), start.after(REPLICA_FORGOTTEN_AFTER));
        assert!(known.kinds.is_empty());
    }
}
