//! Blob stores: one conformance suite for all backends, and faults of cloud stores.

mod faults;
mod servers;
mod stores;
mod stub;
mod suite;
