//! Commands that submit, read and control jobs.

pub(in crate::cli) mod artifacts;
pub(in crate::cli) mod control;
pub(in crate::cli) mod follow;
pub(in crate::cli) mod fork;
pub(in crate::cli) mod get;
pub(in crate::cli) mod input;
pub(in crate::cli) mod list;
pub(in crate::cli) mod payload;
pub(in crate::cli) mod receipt;
pub(in crate::cli) mod result;
pub(in crate::cli) mod submit;
pub(in crate::cli) mod watch;
