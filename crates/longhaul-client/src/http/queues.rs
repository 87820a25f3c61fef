//! Queues, kinds, replicas, and the server's own description of itself.

use reqwest::Method;

use super::call::{Call, Repeat};
use super::{Client, ClientError};
use crate::wire::{Kind, KindList, Queue, QueueList, RawJson, Replica, ReplicaList};

impl Client {
    /// The tenant's queues that have unfinished jobs or are paused.
    pub async fn queues(&self) -> Result<Vec<Queue>, ClientError> {
        let list: QueueList = self.json(Call::get(self.url(&["v1", "queues"])?)).await?;
        Ok(list.queues)
    }

    /// Holds a queue's jobs back. Running ones go on.
    pub async fn pause_queue(&self, name: &str) -> Result<(), ClientError> {
        let url = self.url(&["v1", "queues", name, "pause"])?;
        self.done(Call::new(Method::POST, url, Repeat::Safe)).await
    }

    /// Lets a paused queue's jobs go on.
    pub async fn resume_queue(&self, name: &str) -> Result<(), ClientError> {
        let url = self.url(&["v1", "queues", name, "resume"])?;
        self.done(Call::new(Method::POST, url, Repeat::Safe)).await
    }

    /// The kinds that the server knows.
    pub async fn kinds(&self) -> Result<Vec<Kind>, ClientError> {
        let list: KindList = self.json(Call::get(self.url(&["v1", "kinds"])?)).await?;
        Ok(list.kinds)
    }

    /// The processes that share the server's store.
    pub async fn replicas(&self) -> Result<Vec<Replica>, ClientError> {
        let list: ReplicaList = self.json(Call::get(self.url(&["v1", "replicas"])?)).await?;
        Ok(list.replicas)
    }

    /// The server's `OpenAPI` document.
    pub async fn openapi(&self) -> Result<RawJson, ClientError> {
        self.json(Call::get(self.url(&["openapi.json"])?)).await
    }
}
