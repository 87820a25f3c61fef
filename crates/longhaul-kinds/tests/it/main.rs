//! The built-in kinds, each with a whole engine around it and real programs.
#![expect(clippy::unwrap_used, reason = "what the tests share may fail the test that uses it")]

mod command;
mod demo;
mod workshop;
