//! Connections: opening the file, the writer thread, reader threads and column types.

pub(crate) mod columns;
pub(crate) mod error;
pub(crate) mod log_mark;
pub(crate) mod open;
pub(crate) mod readers;
pub(crate) mod statements;
pub(crate) mod task;
pub(crate) mod threads;
mod wal;
pub(crate) mod writer;
