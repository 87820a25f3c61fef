//! The kind `command`.

mod ends;
#[cfg(target_os = "linux")]
mod leftovers;
mod pipeline;
mod setup;
mod stops;
mod surroundings;
mod talks;
