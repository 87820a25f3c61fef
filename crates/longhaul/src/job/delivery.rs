//! Webhook deliveries: events, receivers and the input of delivery jobs.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::names::names;
use super::{
    Event, Job, JobId, Json, Name, PreviousState, Retention, Status, TenantId, Timestamp,
    WebhookFormat,
};

/// Kind of delivery jobs. Clients cannot submit it.
pub const DELIVERY_KIND: &str = "longhaul.delivery";
/// Label with the endpoint's id; absent for a job's own webhook.
pub const ENDPOINT_LABEL: &str = "endpoint";
/// Label with the event type.
pub const EVENT_LABEL: &str = "event";
/// Label with the message id that the receiver gets.
pub const MESSAGE_LABEL: &str = "message";
/// Label with the URL of a job's own webhook.
pub const URL_LABEL: &str = "url";
/// Label with the time of the event.
pub const AT_LABEL: &str = "at";
/// Attempts before a delivery becomes a dead letter.
pub const DELIVERY_ATTEMPTS: u32 = 10;
/// Retention of successful deliveries, and of dead letters.
pub const DELIVERY_RETENTION: Retention =
    Retention { completed: Duration::from_hours(3 * 24), failed: Duration::from_hours(30 * 24) };
/// Maximum size of a delivered result in bytes. Larger ones are left out unless the webhook requests them.
pub const DELIVERED_RESULT_BYTES_MAX: usize = 16 * 1024;

/// Type of a webhook event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// The job was accepted, or returned to its queue.
    Pending,
    /// An attempt started.
    Running,
    /// A running job changed its phase.
    Phase,
    /// The job completed.
    Completed,
    /// The job failed permanently.
    Failed,
    /// The job was cancelled.
    Cancelled,
    /// A test event, requested for an endpoint.
    Test,
}

impl EventType {
    /// Returns the event type of a transition, if it has one.
    pub fn of(event: &Event) -> Option<Self> {
        match event.status {
            Status::Pending => Some(Self::Pending),
            Status::Running if event.phase.is_some() => Some(Self::Phase),
            Status::Running => Some(Self::Running),
            Status::Completed => Some(Self::Completed),
            Status::Failed => Some(Self::Failed),
            Status::Cancelled => Some(Self::Cancelled),
            Status::Waiting => None,
        }
    }
}

names! {
    EventType {
        Pending: "job.pending",
        Running: "job.running",
        Phase: "job.phase",
        Completed: "job.completed",
        Failed: "job.failed",
        Cancelled: "job.cancelled",
        Test: "endpoint.test",
    }
}

/// The name of an event type that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no event {0:?}; known: job.pending, job.running, job.phase, job.completed, job.failed, job.cancelled"
)]
pub struct UnknownEvent(String);

impl FromStr for EventType {
    type Err = UnknownEvent;

    fn from_str(word: &str) -> Result<Self, UnknownEvent> {
        let found = Self::ALL.into_iter().find(|event| event.as_str() == word);
        found.ok_or_else(|| UnknownEvent(word.chars().take(80).collect()))
    }
}

impl Serialize for EventType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Event types that a webhook receives. Empty means all job events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventFilter(Vec<EventType>);

impl EventFilter {
    /// Parses names and removes duplicates. Returns [`UnknownEvent`] for a name that is not a job
    /// event.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownEvent> {
        let mut events = Vec::new();
        for word in words {
            let event: EventType = word.parse()?;
            if event == EventType::Test {
                return Err(UnknownEvent(word.to_owned()));
            }
            events.push(event);
        }
        events.sort_unstable();
        events.dedup();
        Ok(Self(events))
    }

    pub(crate) fn from_words(words: &str) -> Result<Self, UnknownEvent> {
        Self::new(words.split_ascii_whitespace())
    }

    pub(crate) fn to_words(&self) -> String {
        let words: Vec<&str> = self.0.iter().map(|event| event.as_str()).collect();
        words.join(" ")
    }

    /// Returns true if the filter includes this type.
    pub fn includes(&self, event: EventType) -> bool {
        self.0.is_empty() || self.0.contains(&event)
    }

    /// Returns the event types; empty if all are included.
    pub fn events(&self) -> &[EventType] {
        &self.0
    }
}

/// A webhook for one job, in addition to the tenant's endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// URL that receives the events.
    pub url: String,
    /// Events to deliver.
    #[serde(default)]
    pub events: EventFilter,
    /// Signing secret, encrypted with the server's key. Defaults to the tenant's secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_secret: Option<String>,
    /// If true, results of any size are included.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// Format of the body. Stored as `dialect`.
    #[serde(rename = "dialect", default, skip_serializing_if = "WebhookFormat::is_standard")]
    pub format: WebhookFormat,
}

/// Destination of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Receiver {
    /// An endpoint of the tenant, read when the delivery is sent.
    Endpoint(String),
    /// The webhook of a single job.
    Webhook(Webhook),
}

/// One event for one receiver: the input of a delivery job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Message id, the same for every attempt.
    pub message_id: String,
    /// Type of the event.
    pub event: EventType,
    /// Time of the event.
    pub at: Timestamp,
    /// Receiver of the delivery.
    pub to: Receiver,
    /// The job right after the event; `None` for a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<Job>>,
    /// The job's result, if it is included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The job's state before the event, for formats that need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PreviousState>,
}

impl Delivery {
    /// Serializes the delivery as a job's input.
    pub fn to_input(&self) -> Option<Json> {
        Json::from_value(self).ok()
    }

    /// Returns the labels that make deliveries searchable without their inputs.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let (whom, value) = match &self.to {
            Receiver::Endpoint(id) => (ENDPOINT_LABEL, id.clone()),
            Receiver::Webhook(webhook) => (URL_LABEL, webhook.url.clone()),
        };
        [
            (whom, value),
            (EVENT_LABEL, self.event.to_string()),
            (MESSAGE_LABEL, self.message_id.clone()),
            (AT_LABEL, self.at.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

impl Receiver {
    /// Returns the key that distinguishes receivers of one job.
    pub fn key(&self) -> &str {
        match self {
            Self::Endpoint(id) => id,
            Self::Webhook(webhook) => &webhook.url,
        }
    }

    /// Returns true if deliveries to this receiver include the previous state.
    pub(crate) fn needs_previous_state(&self) -> bool {
        match self {
            Self::Endpoint(_) => false,
            Self::Webhook(webhook) => !webhook.format.is_standard(),
        }
    }

    /// Returns the queue of this receiver's deliveries: the endpoint's id, or a hash of tenant and
    /// origin of the URL.
    pub fn queue(&self, tenant: &TenantId) -> Option<Name> {
        let url = match self {
            Self::Endpoint(id) => match Name::new(id) {
                Ok(queue) => return Some(queue),
                Err(_) => id,
            },
            Self::Webhook(webhook) => &webhook.url,
        };
        let mut hash = Sha256::new();
        hash.update(tenant.as_str());
        hash.update([0]);
        hash.update(origin(url).to_ascii_lowercase());
        let bytes: [u8; 32] = hash.finalize().into();
        let server = bytes.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Name::new(format!("to-{server:016x}")).ok()
    }
}

/// Returns the part of a URL before its path. Only used to group deliveries, so that no full parser
/// is needed.
fn origin(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(authority..).and_then(|rest| rest.find(['/', '?', '#', '\\']));
    url.get(..path.map_or(url.len(), |path| authority + path)).unwrap_or(url)
}

/// Bits of a delivery's id after the job's version.
const HASH_BITS: u32 = 56;

/// Returns the id of the delivery of an event to a receiver. Deterministic, so that every replica
/// computes the same id. Ids are in the order of events as far as the replicas' clocks agree;
/// [`delivered_version`] is exact.
pub fn delivery_id(job: &Job, event: &Event, receiver: &Receiver) -> JobId {
    let mut hash = Sha256::new();
    for part in [job.tenant.as_str(), &job.id.to_string(), receiver.key()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(event.version.to_le_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    // Within one millisecond, the later event has the greater id.
    let version = u128::from(event.version.min(0xff_ffff));
    let random = bytes.iter().take(7).fold(version, |bits, byte| bits << 8 | u128::from(*byte));
    JobId::from_parts(event.at, random)
}

/// Returns the job's version that a delivery reports, from its id. Random, and nearly always
/// greater than any version, for tests and resent deliveries.
pub fn delivered_version(delivery: JobId) -> u128 {
    delivery.random() >> HASH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_named_is_every_event() {
        let all = EventFilter::default();
        assert!(EventType::ALL.into_iter().all(|event| all.includes(event)));
        let some = EventFilter::new(["job.failed", "job.completed", "job.failed"]).unwrap();
        assert_eq!(some.events(), [EventType::Completed, EventType::Failed]);
        assert!(!some.includes(EventType::Pending));
        assert!(EventFilter::new(["endpoint.test"]).is_err());
        assert!(EventFilter::new(["job.done"]).is_err());
    }

    #[test]
    fn each_receiver_has_a_queue_of_its_own() {
        let [acme, other] = ["acme", "other"].map(|name| TenantId::new(name).unwrap());
        let own = |url: &str| {
            let events = EventFilter::default();
            let webhook = Webhook {
                url: url.to_owned(),
                events,
                sealed_secret: None,
                full: false,
                format: WebhookFormat::default(),
            };
            Receiver::Webhook(webhook).queue(&acme).unwrap()
        };
        let one = own("https://example.com/a");
        assert_eq!(own("https://EXAMPLE.com/b?c"), one);
        assert_eq!(own("https://example.com"), one);
        for url in ["http://example.com/a", "https://example.com:444/a", "https://example.org/a"] {
            assert_ne!(own(url), one);
        }
        let endpoint = Receiver::Endpoint("ep_01ABC".to_owned());
        assert_eq!(endpoint.queue(&acme).unwrap().as_str(), "ep_01ABC");
        let odd = Receiver::Endpoint("not a name".to_owned());
        assert_ne!(odd.queue(&acme), odd.queue(&other));
    }

    #[test]
    fn words_of_events_read_back() {
        for event in EventType::ALL {
            assert_eq!(event.as_str().parse(), Ok(event));
        }
    }
}
