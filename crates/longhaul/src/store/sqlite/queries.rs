//! Reads: single jobs, lists, queues and usage.

pub(crate) mod find;
pub(crate) mod list;
pub(crate) mod queues;
pub(crate) mod usage;
