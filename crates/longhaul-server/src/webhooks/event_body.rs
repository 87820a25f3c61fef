//! What is sent.

use longhaul::Timestamp;
use longhaul::job::{Delivery, EventType};
use longhaul_client::wire;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::to_wire;

/// The body of a delivery.
#[derive(Debug, Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    timestamp: String,
    data: Data,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Data {
    Job(Box<wire::Job>),
    Test { message: &'static str },
}

/// The same bytes for every attempt: they are signed with a new time, but what they say is what happened.
/// `result` is what is sent of the job's result.
pub(super) fn bytes(
    delivery: &Delivery,
    result: Option<&RawValue>,
) -> Result<Vec<u8>, serde_json::Error> {
    let data = match &delivery.job {
        Some(job) => {
            let result = result.map(|result| wire::RawJson::from_text(result.get())).transpose()?;
            Data::Job(Box::new(wire::Job { result, ..to_wire::job_snapshot(job, None) }))
        }
        None => Data::Test { message: "Deliveries from this server arrive here." },
    };
    let body = Body { event: delivery.event.as_str(), timestamp: instant(delivery.at), data };
    serde_json::to_vec(&body)
}

fn instant(at: Timestamp) -> String {
    at.to_string()
}

/// Whether the job's result belongs to the event.
pub(super) fn tells_result(event: EventType) -> bool {
    event == EventType::Completed
}
