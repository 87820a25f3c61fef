//! The kinds that come with Longhaul.
//!
//! - [`demo()`]: does nothing but what its input says: steps, sleep, failure, result.
//! - [`command`]: runs a program, or a durable pipeline of programs.
//! - [`http`]: asks an HTTP endpoint that is there already.
//! - [`chat`]: calls a language model.
//! - `render`: draws diagrams; behind the feature of that name.
//!
//! Each is a plain [`longhaul::Kind`]; register it with an engine:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul::Engine;
//! use longhaul_kinds::demo;
//! use serde_json::{Value, json};
//!
//! let engine = Engine::builder().memory().register(demo()).start().await?;
//! let job = engine.submit("demo", &json!({"steps": 3, "result": "done"})).await?;
//! assert_eq!(job.result::<Value>().await?, "done");
//! # engine.stop().await; Ok(()) }
//! ```
//!
//! Kinds that take an archive from strangers unpack it with [`archive`].

pub mod archive;
pub mod breaker;
pub mod chat;
pub mod command;
mod demo;
pub mod egress;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod http;
#[cfg(feature = "render")]
pub mod render;

pub use demo::demo;
