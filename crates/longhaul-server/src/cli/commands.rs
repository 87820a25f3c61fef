//! One file for each command.

pub(super) mod accounts;
pub(super) mod completions;
pub(super) mod jobs;
pub(super) mod kinds;
pub(super) mod openapi;
pub(super) mod operations;
pub(super) mod queues;
#[cfg(feature = "render")]
pub(super) mod render;
pub(super) mod replicas;
pub(super) mod webhooks;
