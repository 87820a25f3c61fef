//! Telling others what becomes of jobs.

pub mod signature;
