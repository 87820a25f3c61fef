//! Integration tests of the engine and its stores, in one test binary.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod accounts;
mod blob;
mod buggy_store;
mod conformance;
mod endpoints;
mod engine;
mod examples;
mod model_store;
mod postgres;
mod random;
mod restore;
mod shared_store;
mod simulation;
mod sql_submit;
mod support;
mod transfer;
