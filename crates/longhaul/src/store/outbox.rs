//! Transactional outbox: turns job events into webhook deliveries.
//!
//! A delivery is itself a job, in the tenant's outbox. Stores insert it in the transaction that records the
//! event, so that an event is delivered if and only if it was committed. This module decides, once for all
//! stores, which deliveries an event produces.

use std::collections::HashMap;

use super::stored_job::StoredJob;
use super::{NewJob, Start};
use crate::job::{
    DELIVERED_RESULT_BYTES_MAX, DELIVERY_ATTEMPTS, DELIVERY_KIND, DELIVERY_RETENTION, Delivery,
    EventFilter, EventType, Fingerprint, Json, Name, PreviousState, Receiver, TenantId,
    delivery_id,
};

/// A webhook endpoint and the events that it receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointSubscription {
    pub(crate) endpoint: String,
    pub(crate) events: EventFilter,
}

/// The enabled endpoints by tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subscriptions(HashMap<TenantId, Vec<EndpointSubscription>>);

impl Subscriptions {
    pub(crate) fn add(&mut self, tenant: TenantId, subscription: EndpointSubscription) {
        self.0.entry(tenant).or_default().push(subscription);
    }

    /// Returns the deliveries for the unwritten events of this job. `result` is set if the job has just
    /// completed.
    pub(super) fn pending_deliveries(
        &self,
        entry: &StoredJob,
        result: Option<&Json>,
    ) -> Vec<NewJob> {
        let endpoints = self.0.get(&entry.job.tenant).map(Vec::as_slice).unwrap_or_default();
        let own = entry.webhook.as_deref();
        if endpoints.is_empty() && own.is_none() {
            return Vec::new();
        }
        let mut deliveries = Vec::new();
        let states = entry.events.iter().map(|event| Some(PreviousState::after(event)));
        let states_before = std::iter::once(entry.before.clone()).chain(states);
        for (event, before) in entry.events.iter().zip(states_before) {
            let Some(event_type) = EventType::of(event) else { continue };
            let to_endpoints = endpoints
                .iter()
                .filter(|subscription| subscription.events.includes(event_type))
                .map(|subscription| Receiver::Endpoint(subscription.endpoint.clone()));
            let to_own = own
                .filter(|webhook| webhook.events.includes(event_type))
                .filter(|webhook| webhook.format.should_send(before.as_ref(), event))
                .map(|webhook| Receiver::Webhook(webhook.clone()));
            for to in to_endpoints.chain(to_own) {
                let is_last = event.version == entry.job.version;
                let result = result.filter(|_| is_last && event.status.is_terminal());
                let job = if is_last { entry.job.clone() } else { entry.job.at(event) };
                let id = delivery_id(&entry.job, event, &to);
                let before = before.clone().filter(|_| to.needs_previous_state());
                let delivery = Delivery {
                    message_id: format!("msg_{id}"),
                    event: event_type,
                    at: event.at,
                    to,
                    job: Some(Box::new(job)),
                    result: result.and_then(small),
                    before,
                };
                deliveries.extend(new_delivery(&entry.job.tenant, id, &delivery));
            }
        }
        deliveries
    }
}

fn small(result: &Json) -> Option<Box<serde_json::value::RawValue>> {
    let text = result.as_str();
    let is_small = text.len() <= DELIVERED_RESULT_BYTES_MAX;
    is_small.then(|| serde_json::value::RawValue::from_string(text.to_owned()).ok()).flatten()
}

/// Creates a delivery as a job in the outbox of its tenant. `None` if it cannot be encoded, which does not
/// happen with valid names.
pub(crate) fn new_delivery(
    tenant: &TenantId,
    id: crate::job::JobId,
    delivery: &Delivery,
) -> Option<NewJob> {
    let kind = Name::new(DELIVERY_KIND).ok()?;
    let input = delivery.to_input()?;
    Some(NewJob {
        tenant: tenant.outbox(),
        id,
        queue: delivery.to.queue(tenant)?,
        priority: 0,
        // Unused: deliveries are deduplicated by id.
        fingerprint: Fingerprint::from_bytes([0; 32]),
        kind,
        input,
        idempotency_key: None,
        start: Start::Now,
        max_attempts: DELIVERY_ATTEMPTS,
        timeout: None,
        labels: delivery.labels(),
        retention: DELIVERY_RETENTION,
        parent_id: delivery.job.as_ref().map(|job| job.id),
        payload: None,
        key_id: None,
        webhook: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{
        ChatState, ENDPOINT_LABEL, JobId, Status, Timestamp, Webhook, WebhookFormat,
        delivered_version,
    };
    use crate::store::testing::new_job;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn submitted(webhook: Option<Box<Webhook>>) -> StoredJob {
        let new = new_job(JobId::from_parts(NOW, 7), Json::from_text("1").unwrap());
        StoredJob::accepted(&NewJob { webhook, ..new }, NOW)
    }

    fn subscriptions(filters: &[&[&str]]) -> Subscriptions {
        let mut subscriptions = Subscriptions::default();
        for (place, words) in filters.iter().enumerate() {
            let events = EventFilter::new(words.iter().copied()).unwrap();
            let subscription = EndpointSubscription { endpoint: format!("ep_{place}"), events };
            subscriptions.add(TenantId::default(), subscription);
        }
        subscriptions
    }

    #[test]
    fn event_without_subscriptions_creates_no_deliveries() {
        assert!(Subscriptions::default().pending_deliveries(&submitted(None), None).is_empty());
    }

    #[test]
    fn each_subscription_gets_deliveries_of_its_events() {
        let url = "https://example.com/hook".to_owned();
        let own = Webhook {
            url,
            events: EventFilter::default(),
            sealed_secret: None,
            full: false,
            format: WebhookFormat::Standard,
        };
        let deliveries = subscriptions(&[&[], &["job.failed"], &["job.pending"]])
            .pending_deliveries(&submitted(Some(Box::new(own))), None);
        let to: Vec<&str> = deliveries
            .iter()
            .map(|new| new.labels.get(ENDPOINT_LABEL).map_or("own", String::as_str))
            .collect();
        assert_eq!(to, ["ep_0", "ep_2", "own"]);
        assert!(deliveries.iter().all(|new| new.tenant.as_str() == "~default"));
        let ids: std::collections::HashSet<_> = deliveries.iter().map(|new| new.id).collect();
        assert_eq!(ids.len(), 3);
    }

    /// Several phases in one transaction, of which one does not change the public state.
    #[test]
    fn state_webhook_gets_deliveries_of_state_changes_only() {
        let url = "https://example.com/hook".to_owned();
        let events = EventFilter::default();
        let format = WebhookFormat::States;
        let own = Webhook { url, events, sealed_secret: None, full: true, format };
        let mut entry = submitted(Some(Box::new(own)));
        let states = |entry: &StoredJob| -> Vec<(Option<&str>, &str)> {
            let deliveries = Subscriptions::default().pending_deliveries(entry, None);
            let states_of = |new: NewJob| {
                let delivery: Delivery = new.input.to().unwrap();
                let job = delivery.job.unwrap();
                let now = ChatState::of(job.status, job.phase.as_deref()).as_str();
                (delivery.before.map(|before| before.state().as_str()), now)
            };
            deliveries.into_iter().map(states_of).collect()
        };
        assert_eq!(states(&entry), [(None, "queued")]);
        entry.written();
        entry.job.status = Status::Running;
        entry.tell(&["loading".to_owned(), "working".to_owned(), "working".to_owned()], None, NOW);
        let changes = [(Some("queued"), "loading"), (Some("loading"), "working")];
        assert_eq!(states(&entry), changes);
    }

    /// The clocks of replicas differ, so a later event may have an earlier time.
    #[test]
    fn delivery_ids_are_in_the_order_of_events_despite_clock_skew() {
        let entry = submitted(None);
        let first = entry.events.first().unwrap();
        let at = Timestamp::from_millis(NOW.as_millis() - 60);
        let second = crate::job::Event { version: first.version + 1, at, ..first.clone() };
        let to = Receiver::Endpoint("ep_1".to_owned());
        let [first, second] = [first, &second].map(|event| delivery_id(&entry.job, event, &to));
        assert!(second < first);
        assert_eq!([first, second].map(delivered_version), [1, 2]);
    }

    #[test]
    fn deliveries_do_not_create_deliveries() {
        let mut entry = submitted(None);
        entry.job.tenant = entry.job.tenant.outbox();
        assert!(subscriptions(&[&[]]).pending_deliveries(&entry, None).is_empty());
    }
}
