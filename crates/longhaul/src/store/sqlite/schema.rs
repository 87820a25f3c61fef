//! The database schema and its migrations.

pub(crate) mod migrate;
