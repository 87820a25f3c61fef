//! Client and wire types of the Longhaul HTTP API.
//!
//! Submit with an idempotency key, so that a retried request never runs the work twice, and follow
//! the job with [`Client::events`], which reconnects after lost connections.
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_client::wire::SubmitRequest;
//! use longhaul_client::{Client, SubmitOptions, Update};
//!
//! let client = Client::new("http://127.0.0.1:8080", None)?;
//!
//! let request = SubmitRequest::new("demo", &serde_json::json!({"steps": 3, "sleep": "1s"}))?;
//! let once = SubmitOptions { idempotency_key: Some("order-4711".into()), ..Default::default() };
//! let job = client.submit(&request, &once).await?;
//!
//! let mut events = client.events(&job.job_id);
//! while let Some(update) = events.next().await? {
//!     match update {
//!         Update::Job(job) => println!("{} {:?}", job.status, job.progress),
//!         Update::Reconnecting { error, .. } => eprintln!("{error}; retrying"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `http` (default): [`Client`]. Without it, the crate has only [`wire`] and durations.
//! - `openapi`: `OpenAPI` schemas of the wire types, for the server.

#![warn(missing_docs)]

mod duration;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "http")]
mod http;
pub mod wire;

pub use duration::{DurationError, DurationText};
#[cfg(feature = "http")]
pub use http::{
    Client, ClientError, Download, Events, ListRequest, Payload, SubmitOptions, Update,
    UsageRequest, without_password,
};
