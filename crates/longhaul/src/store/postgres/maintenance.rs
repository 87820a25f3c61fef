//! Background maintenance. Every replica may run every task at any time.

pub(super) mod blobs;
mod fence;
mod prune;
mod rescue;
pub(super) mod usage;
