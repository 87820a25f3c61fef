//! The kind `command`.

mod configuration;
mod failures;
#[cfg(target_os = "linux")]
mod orphans;
mod pipeline;
mod protocol;
mod stops;
mod work_dir;
