//! The engine and its stores from outside, in one test binary.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod accounts;
mod blob;
mod broken;
mod conformance;
mod copy;
mod endpoints;
mod engine;
mod examples;
mod neighbour;
mod postgres;
mod random;
mod reference;
mod sql_submit;
