//! Queues, kinds, replicas and the OpenAPI document.

use reqwest::Method;

use super::call::Repeat;
use super::{Client, Result};
use crate::wire::{Kind, KindList, Queue, QueueList, RawJson, Replica, ReplicaList};

impl Client {
    /// Lists the tenant's queues that have unfinished jobs or are paused.
    pub async fn queues(&self) -> Result<Vec<Queue>> {
        self.get(&["v1", "queues"], &[]).await.map(|list: QueueList| list.queues)
    }

    /// Pauses a queue. Running jobs continue.
    pub async fn pause_queue(&self, name: &str) -> Result<()> {
        self.done(self.call(Method::POST, &["v1", "queues", name, "pause"], Repeat::Safe)?).await
    }

    /// Resumes a paused queue.
    pub async fn resume_queue(&self, name: &str) -> Result<()> {
        self.done(self.call(Method::POST, &["v1", "queues", name, "resume"], Repeat::Safe)?).await
    }

    /// Lists the kinds of jobs.
    pub async fn kinds(&self) -> Result<Vec<Kind>> {
        self.get(&["v1", "kinds"], &[]).await.map(|list: KindList| list.kinds)
    }

    /// Lists the replicas that share the server's database.
    pub async fn replicas(&self) -> Result<Vec<Replica>> {
        self.get(&["v1", "replicas"], &[]).await.map(|list: ReplicaList| list.replicas)
    }

    /// Returns the server's `OpenAPI` document.
    pub async fn openapi(&self) -> Result<RawJson> {
        self.get(&["openapi.json"], &[]).await
    }
}
