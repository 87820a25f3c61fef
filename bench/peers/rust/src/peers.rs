//! One file a peer: its settings, and how it submits and works.

pub mod apalis;
pub mod dbos;
pub mod graphile_worker;
pub mod river;
