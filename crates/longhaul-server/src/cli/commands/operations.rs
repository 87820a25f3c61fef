//! Commands that run, check and maintain a server.

pub(in crate::cli) mod bench;
pub(in crate::cli) mod copy;
pub(in crate::cli) mod doctor;
pub(in crate::cli) mod migrate;
pub(in crate::cli) mod rotate_key;
pub(in crate::cli) mod serve;
