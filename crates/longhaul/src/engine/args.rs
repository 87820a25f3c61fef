//! Typed job arguments.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The input of a kind of job, as a Rust type.
///
/// Connects a kind's name, its input and its output, so that the compiler checks submissions and
/// results:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul::{Ctx, Engine, JobArgs};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Ship {
///     order: u32,
/// }
///
/// impl JobArgs for Ship {
///     const KIND: &'static str = "ship";
///     type Output = String;
/// }
///
/// async fn ship(_ctx: Ctx, args: Ship) -> longhaul::Result<String> {
///     Ok(format!("order {} is on its way", args.order))
/// }
///
/// let engine = Engine::builder().handler(ship).start().await?;
/// let job = engine.submit(Ship { order: 4711 }).key("order-4711").await?;
/// assert_eq!(job.await?, "order 4711 is on its way");
/// # engine.stop().await; Ok(()) }
/// ```
///
/// Stored jobs outlive a deployment: give new fields `#[serde(default)]`, and a new kind to an
/// incompatible input.
pub trait JobArgs: Serialize + DeserializeOwned + Send + 'static {
    /// Name of the kind: a letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.
    const KIND: &'static str;

    /// Result of a completed job.
    type Output: Serialize + DeserializeOwned + Send + 'static;
}
