//! Webhooks: who is told of what happens to a job, and what one of them is told.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{
    Event, Job, JobId, Json, Name, PreviousState, Retention, Status, TenantId, Timestamp,
    WebhookFormat,
};

/// The kind of the jobs that deliver. Nobody can submit one.
pub const DELIVERY_KIND: &str = "longhaul.delivery";
/// The label that says whose delivery it is: the endpoint's id, absent for a job's own webhook.
pub const ENDPOINT_LABEL: &str = "endpoint";
/// The label that says what it tells.
pub const EVENT_LABEL: &str = "event";
/// The label that says what its receiver knows it by.
pub const MESSAGE_LABEL: &str = "message";
/// The label that says where it goes, if that is not the endpoint's affair.
pub const URL_LABEL: &str = "url";
/// The label that says when it happened.
pub const AT_LABEL: &str = "at";
/// How often a delivery is tried before it is a dead letter.
pub const DELIVERY_ATTEMPTS: u32 = 10;
/// How long deliveries are kept: those that arrived, and dead letters.
pub const DELIVERY_RETENTION: Retention =
    Retention { completed: Duration::from_hours(3 * 24), failed: Duration::from_hours(30 * 24) };
/// A result of more than this is left out of what is sent, unless its receiver wants all of it.
pub const DELIVERED_RESULT_BYTES_MAX: usize = 16 * 1024;

/// What a receiver can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// A job was accepted, or went back in line.
    Pending,
    /// An attempt began.
    Running,
    /// A running job named what it is doing.
    Phase,
    /// A job has its result.
    Completed,
    /// A job failed for good.
    Failed,
    /// A job was stopped.
    Cancelled,
    /// Somebody asked for a delivery to see whether it arrives.
    Test,
}

impl EventType {
    /// Those that a job's transitions are.
    pub const OF_JOBS: [Self; 6] =
        [Self::Pending, Self::Running, Self::Phase, Self::Completed, Self::Failed, Self::Cancelled];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "job.pending",
            Self::Running => "job.running",
            Self::Phase => "job.phase",
            Self::Completed => "job.completed",
            Self::Failed => "job.failed",
            Self::Cancelled => "job.cancelled",
            Self::Test => "endpoint.test",
        }
    }

    /// What a transition is told as, if it is.
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

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no event {0:?}; known: job.pending, job.running, job.phase, job.completed, job.failed, job.cancelled"
)]
pub struct UnknownEvent(String);

impl FromStr for EventType {
    type Err = UnknownEvent;

    fn from_str(word: &str) -> Result<Self, UnknownEvent> {
        let all = Self::OF_JOBS.into_iter().chain([Self::Test]);
        let found = all.into_iter().find(|event| event.as_str() == word);
        found.ok_or_else(|| UnknownEvent(word.chars().take(80).collect()))
    }
}

impl Serialize for EventType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Which events a receiver wants. Empty: all that happen to jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventFilter(Vec<EventType>);

impl EventFilter {
    /// These, each once. [`UnknownEvent`] if one is no event of a job.
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

    /// From its words with spaces between.
    pub(crate) fn from_words(words: &str) -> Result<Self, UnknownEvent> {
        Self::new(words.split_ascii_whitespace())
    }

    /// Its words with spaces between.
    pub(crate) fn to_words(&self) -> String {
        let words: Vec<&str> = self.0.iter().map(|event| event.as_str()).collect();
        words.join(" ")
    }

    /// Whether this one is wanted.
    pub fn includes(&self, event: EventType) -> bool {
        self.0.is_empty() || self.0.contains(&event)
    }

    /// The events, none if all are wanted.
    pub fn events(&self) -> &[EventType] {
        &self.0
    }
}

/// Who wants to be told of one job, besides its tenant's endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Where.
    pub url: String,
    /// Of what.
    #[serde(default)]
    pub events: EventFilter,
    /// What deliveries are signed with, sealed with the server's key; the tenant's own if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_secret: Option<String>,
    /// Whether results of any size are sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// In which words.
    #[serde(rename = "dialect", default, skip_serializing_if = "WebhookFormat::is_standard")]
    pub format: WebhookFormat,
}

/// Where a delivery goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Receiver {
    /// To an endpoint of the tenant, as it is when it is sent.
    Endpoint(String),
    /// To where the job's submitter wanted it.
    Webhook(Webhook),
}

/// One event owed to one receiver: the input of the job that delivers it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// What the receiver knows it by, however often it is sent.
    pub message_id: String,
    /// What happened.
    pub event: EventType,
    /// When.
    pub at: Timestamp,
    /// Who is told.
    pub to: Receiver,
    /// The job right after the event; none for a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<Job>>,
    /// Its result, if it has one and it is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// How it stood before, for those who are told of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PreviousState>,
}

impl Delivery {
    /// As the input of its job.
    pub fn to_input(&self) -> Option<Json> {
        Json::from_value(self).ok()
    }
}

impl Delivery {
    /// What is to be known of it in a list, where nobody reads inputs.
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
    /// What tells it from the other receivers of the same job.
    pub fn key(&self) -> &str {
        match self {
            Self::Endpoint(id) => id,
            Self::Webhook(webhook) => &webhook.url,
        }
    }

    /// Whether it is told how the job stood before.
    pub(crate) fn needs_previous_state(&self) -> bool {
        match self {
            Self::Endpoint(_) => false,
            Self::Webhook(webhook) => !webhook.format.is_standard(),
        }
    }

    /// The queue that its deliveries wait in, which no other receiver shares: an endpoint's id, or for jobs'
    /// own webhooks of a tenant what stands for the server in the URL.
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

/// A URL up to its path. It only has to be the same for the same server; whoever dials reads it with care.
fn origin(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(authority..).and_then(|rest| rest.find(['/', '?', '#', '\\']));
    url.get(..path.map_or(url.len(), |path| authority + path)).unwrap_or(url)
}

/// Bits of a delivery's id behind the version that it tells.
const HASH_BITS: u32 = 56;

/// The id of the delivery of a job's event to a receiver: the same whoever works it out. They are about in the
/// order of the events, as far as the clocks of replicas agree; [`delivered_version`] is so exactly.
pub fn delivery_id(job: &Job, event: &Event, receiver: &Receiver) -> JobId {
    let mut hash = Sha256::new();
    for part in [job.tenant.as_str(), &job.id.to_string(), receiver.key()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(event.version.to_le_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    // Of two in one millisecond the later one has the greater id.
    let version = u128::from(event.version.min(0xff_ffff));
    let random = bytes.iter().take(7).fold(version, |bits, byte| bits << 8 | u128::from(*byte));
    JobId::from_parts(event.at, random)
}

/// The version of the job that a delivery tells, by what [`delivery_id`] made. That of a test or of one that is
/// sent again is random, and nearly always greater than any.
pub fn delivered_version(delivery: JobId) -> u128 {
    delivery.random() >> HASH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_named_is_every_event() {
        let all = EventFilter::default();
        assert!(EventType::OF_JOBS.into_iter().all(|event| all.includes(event)));
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
        for event in EventType::OF_JOBS.into_iter().chain([EventType::Test]) {
            assert_eq!(event.as_str().parse(), Ok(event));
        }
    }
}
