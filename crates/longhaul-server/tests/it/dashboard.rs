//! Pages, as a browser meets them.

mod accounts;
mod browser;
mod escaping;
mod forms;
mod job;
mod jobs;
mod overview;
mod sign_in;
mod submit;
