//! Tenants: whether they may use the service, and how much of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{TenantId, Timestamp};

/// Whether a tenant pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subscription {
    /// It may use everything.
    #[default]
    Active,
    /// A payment is due. It may go on for as long as the server's grace lasts.
    PastDue,
    /// It may not use anything.
    Suspended,
}

impl Subscription {
    /// The word used in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Suspended => "suspended",
        }
    }

    /// Reads the word back.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Active, Self::PastDue, Self::Suspended];
        all.into_iter().find(|subscription| subscription.as_str() == word)
    }
}

/// How much a tenant may use. None: as the server's configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantLimits {
    /// Requests a second, over all of its keys.
    pub requests_per_s: Option<u32>,
    /// Jobs that wait.
    pub pending_max: Option<u64>,
    /// Jobs that run at once, over all replicas.
    pub running_max: Option<u32>,
    /// Bytes of payloads and artifacts that are stored.
    pub stored_bytes_max: Option<u64>,
    /// Bytes of one job's input.
    pub input_bytes_max: Option<u64>,
}

/// A change of limits: what is None stays, what is `Some(None)` goes back to the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the same fields as TenantLimits has")]
pub struct LimitsChange {
    pub requests_per_s: Option<Option<u32>>,
    pub pending_max: Option<Option<u64>>,
    pub running_max: Option<Option<u32>>,
    pub stored_bytes_max: Option<Option<u64>>,
    pub input_bytes_max: Option<Option<u64>>,
}

/// A tenant as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// What its jobs are found by.
    pub id: TenantId,
    /// For people.
    pub name: String,
    /// Whether it may use the service.
    pub subscription: Subscription,
    /// Since when it is no longer active; none while it is.
    pub inactive_since: Option<Timestamp>,
    /// How much it may use.
    pub limits: TenantLimits,
    /// What the payment provider calls it.
    pub billing_id: Option<String>,
    /// When the payment provider last said something of it.
    pub billed_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A change of a tenant. What is None stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantChange {
    /// Its name.
    pub name: Option<String>,
    /// Whether it may use the service.
    pub subscription: Option<Subscription>,
    /// How much it may use.
    pub limits: LimitsChange,
    /// What the payment provider calls it.
    pub billing_id: Option<Option<String>>,
}

/// What the payment provider says of a customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillingEvent {
    /// The provider's id of the event: applied once.
    pub id: String,
    /// What the provider calls the tenant.
    pub billing_id: String,
    /// How its subscription stands.
    pub subscription: Subscription,
    /// When that became so, by the provider's clock.
    pub at: Timestamp,
}

impl Tenant {
    /// A tenant with nothing special.
    pub fn new(id: TenantId, name: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            id,
            name: name.into(),
            subscription: Subscription::Active,
            inactive_since: None,
            limits: TenantLimits::default(),
            billing_id: None,
            billed_at: None,
            created_at,
        }
    }

    /// Whether it may use the service now: a tenant whose payment is due has `grace`.
    pub fn may_use(&self, grace: Duration, now: Timestamp) -> bool {
        match self.subscription {
            Subscription::Active => true,
            Subscription::PastDue => {
                self.inactive_since.is_some_and(|since| now < since.after(grace))
            }
            Subscription::Suspended => false,
        }
    }

    /// Makes a change.
    pub(crate) fn change(&mut self, change: &TenantChange, now: Timestamp) {
        if let Some(name) = &change.name {
            self.name.clone_from(name);
        }
        if let Some(billing_id) = &change.billing_id {
            self.billing_id.clone_from(billing_id);
        }
        if let Some(subscription) = change.subscription {
            self.subscribe(subscription, now);
        }
        let (limits, to) = (&mut self.limits, &change.limits);
        set(&mut limits.requests_per_s, to.requests_per_s);
        set(&mut limits.pending_max, to.pending_max);
        set(&mut limits.running_max, to.running_max);
        set(&mut limits.stored_bytes_max, to.stored_bytes_max);
        set(&mut limits.input_bytes_max, to.input_bytes_max);
    }

    /// The grace counts from when it stopped being active, whatever is said of it in between.
    fn subscribe(&mut self, subscription: Subscription, now: Timestamp) {
        self.subscription = subscription;
        self.inactive_since = match subscription {
            Subscription::Active => None,
            Subscription::PastDue | Subscription::Suspended => self.inactive_since.or(Some(now)),
        };
    }
}

#[expect(clippy::option_option, reason = "absent, null and a value are three things on the wire")]
fn set<T>(place: &mut Option<T>, to: Option<Option<T>>) {
    if let Some(value) = to {
        *place = value;
    }
}

/// Applies what the payment provider says. False if it says nothing new: providers repeat themselves and
/// do not keep the order.
pub fn apply_billing(tenant: &mut Tenant, event: &BillingEvent, now: Timestamp) -> bool {
    if tenant.billed_at.is_some_and(|last| event.at < last) {
        return false;
    }
    tenant.billed_at = Some(event.at);
    tenant.subscribe(event.subscription, now);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn tenant() -> Tenant {
        Tenant::new(TenantId::default(), "", Timestamp::from_millis(0))
    }

    fn event(subscription: Subscription, at: i64) -> BillingEvent {
        let at = Timestamp::from_millis(at);
        BillingEvent { id: "e".to_owned(), billing_id: "c".to_owned(), subscription, at }
    }

    #[test]
    fn grace_counts_from_when_the_payment_was_due() {
        let (mut tenant, due) = (tenant(), Timestamp::from_millis(1_000));
        assert!(tenant.may_use(Duration::ZERO, due));
        tenant.subscribe(Subscription::PastDue, due);
        assert!(!tenant.may_use(Duration::ZERO, due));
        assert!(tenant.may_use(DAY, due));
        let reminded = due.after(DAY);
        tenant.subscribe(Subscription::PastDue, reminded);
        assert!(!tenant.may_use(DAY, reminded));
        tenant.subscribe(Subscription::Active, reminded);
        assert!(tenant.may_use(Duration::ZERO, reminded));
        tenant.subscribe(Subscription::Suspended, reminded);
        assert!(!tenant.may_use(DAY, reminded));
    }

    #[test]
    fn older_news_of_a_payment_changes_nothing() {
        let (mut tenant, now) = (tenant(), Timestamp::from_millis(9_000));
        assert!(apply_billing(&mut tenant, &event(Subscription::Active, 5_000), now));
        assert!(!apply_billing(&mut tenant, &event(Subscription::Suspended, 4_000), now));
        assert_eq!(tenant.subscription, Subscription::Active);
    }
}
