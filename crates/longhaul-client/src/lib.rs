//! Talk to a Longhaul server: the wire types, and a client over HTTP.
//!
//! A job that was acknowledged is never lost, so the two things a caller wants are easy to get
//! right: submit under an idempotency key, so that trying again never runs the work twice, and
//! watch until the end, however often the connection breaks on the way.
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
//!         Update::Reconnecting { error, .. } => eprintln!("{error}; trying again"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `http` (default): [`Client`]. Without it, only [`wire`] and the durations are there.
//! - `openapi`: derives the `OpenAPI` schemas of the wire types, for the server.

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
