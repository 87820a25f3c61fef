//! Built-in kinds in a whole engine, with real programs.
#![expect(clippy::unwrap_used, reason = "shared helpers may fail the test that uses them")]

mod command;
mod demo;
mod support;
