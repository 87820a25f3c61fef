//! Queues, kinds, replicas and the OpenAPI document.

use reqwest::Method;

use super::call::{Call, Repeat};
use super::{Client, ClientError};
use crate::wire::{Kind, KindList, Queue, QueueList, RawJson, Replica, ReplicaList};

impl Client {
    /// Lists the tenant's queues that have unfinished jobs or are paused.
    pub async fn queues(&self) -> Result<Vec<Queue>, ClientError> {
        let list: QueueList = self.json(Call::get(self.url(&["v1", "queues"])?)).await?;
        Ok(list.queues)
    }

    /// Pauses a queue. Running jobs continue.
    pub async fn pause_queue(&self, name: &str) -> Result<(), ClientError> {
        let url = self.url(&["v1", "queues", name, "pause"])?;
        self.done(Call::new(Method::POST, url, Repeat::Safe)).await
    }

    /// Resumes a paused queue.
    pub async fn resume_queue(&self, name: &str) -> Result<(), ClientError> {
        let url = self.url(&["v1", "queues", name, "resume"])?;
        self.done(Call::new(Method::POST, url, Repeat::Safe)).await
    }

    /// Lists the kinds of jobs.
    pub async fn kinds(&self) -> Result<Vec<Kind>, ClientError> {
        let list: KindList = self.json(Call::get(self.url(&["v1", "kinds"])?)).await?;
        Ok(list.kinds)
    }

    /// Lists the replicas that share the server's database.
    pub async fn replicas(&self) -> Result<Vec<Replica>, ClientError> {
        let list: ReplicaList = self.json(Call::get(self.url(&["v1", "replicas"])?)).await?;
        Ok(list.replicas)
    }

    /// Returns the server's `OpenAPI` document.
    pub async fn openapi(&self) -> Result<RawJson, ClientError> {
        self.json(Call::get(self.url(&["openapi.json"])?)).await
    }
}
