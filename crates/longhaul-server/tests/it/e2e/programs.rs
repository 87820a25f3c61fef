//! Programs of jobs.

mod orphans;
mod user;
