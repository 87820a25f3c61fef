//! Body of a delivery in the Standard Webhooks format.

use longhaul::job::{Delivery, EventType};
use longhaul_client::wire;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::to_wire;

#[derive(Debug, Serialize)]
struct EventBody<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    timestamp: String,
    data: EventData,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum EventData {
    Job(Box<wire::Job>),
    Test { message: &'static str },
}

/// Serializes the body. The bytes are the same for every attempt; only the signature's time changes.
pub(super) fn bytes(
    delivery: &Delivery,
    result: Option<&RawValue>,
) -> Result<Vec<u8>, serde_json::Error> {
    let data = match &delivery.job {
        Some(job) => {
            let result = result.map(|result| wire::RawJson::from_text(result.get())).transpose()?;
            EventData::Job(Box::new(wire::Job { result, ..to_wire::job_snapshot(job, None) }))
        }
        None => EventData::Test { message: "Deliveries from this server arrive here." },
    };
    let body =
        EventBody { event: delivery.event.as_str(), timestamp: delivery.at.to_string(), data };
    serde_json::to_vec(&body)
}

/// Returns whether the event includes the job's result.
pub(super) fn includes_result(event: EventType) -> bool {
    event == EventType::Completed
}
