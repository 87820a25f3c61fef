//! Read access for callers: single jobs, lists, queues and usage.

pub(super) mod find;
mod list;
mod queues;
mod usage;
