//! One file per peer: settings, submission and workers.

pub mod apalis;
pub mod dbos;
pub mod graphile_worker;
pub mod river;
