//! Blobs in every kind of store: one suite for all, and what can go wrong on the way to a cloud.

mod faults;
mod servers;
mod stores;
mod stub;
mod suite;
