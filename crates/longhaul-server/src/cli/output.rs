//! Formatting and writing of command output.

pub(super) mod atomic_file;
pub(super) mod color;
pub(super) mod job_details;
pub(super) mod job_line;
pub(super) mod live_line;
pub(super) mod pretty_json;
pub(super) mod progress_bar;
pub(super) mod table;
pub(super) mod time;
pub(super) mod ui;
