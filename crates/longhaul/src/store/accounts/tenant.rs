//! Tenants, their subscriptions and their limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{TenantId, Timestamp};

/// The state of a tenant's subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subscription {
    /// Paid: the tenant may use the service.
    #[default]
    Active,
    /// Payment overdue: the tenant may use the service until the server's grace period ends.
    PastDue,
    /// Suspended: the tenant may not use the service.
    Suspended,
}

impl Subscription {
    /// Returns the name used in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Suspended => "suspended",
        }
    }

    /// Parses a name that [`Self::as_str`] returned.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Active, Self::PastDue, Self::Suspended];
        all.into_iter().find(|subscription| subscription.as_str() == word)
    }
}

/// Limits of a tenant. `None` applies the server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantLimits {
    /// Maximum requests per second over all keys of the tenant.
    pub requests_per_s: Option<u32>,
    /// Maximum number of pending jobs.
    pub pending_max: Option<u64>,
    /// Maximum number of running jobs over all replicas.
    pub running_max: Option<u32>,
    /// Maximum size of stored payloads and artifacts, in bytes.
    pub stored_bytes_max: Option<u64>,
    /// Maximum size of a job's input, in bytes.
    pub input_bytes_max: Option<u64>,
}

/// A change to limits. `None` keeps a limit; `Some(None)` resets it to the server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the same fields as TenantLimits has")]
pub struct LimitsChange {
    pub requests_per_s: Option<Option<u32>>,
    pub pending_max: Option<Option<u64>>,
    pub running_max: Option<Option<u32>>,
    pub stored_bytes_max: Option<Option<u64>>,
    pub input_bytes_max: Option<Option<u64>>,
}

/// A tenant as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Tenant id.
    pub id: TenantId,
    /// Display name.
    pub name: String,
    /// Subscription state.
    pub subscription: Subscription,
    /// Time since which the subscription is not active; `None` while it is active.
    pub inactive_since: Option<Timestamp>,
    /// Limits of the tenant.
    pub limits: TenantLimits,
    /// Customer id at the payment provider.
    pub billing_id: Option<String>,
    /// Time of the last applied billing event, by the provider's clock.
    pub billed_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// A change to a tenant. Fields that are `None` do not change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantChange {
    /// Display name.
    pub name: Option<String>,
    /// Subscription state.
    pub subscription: Option<Subscription>,
    /// Changes to the limits.
    pub limits: LimitsChange,
    /// Customer id at the payment provider; `Some(None)` removes it.
    pub billing_id: Option<Option<String>>,
}

/// A change of a customer's subscription, reported by the payment provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillingEvent {
    /// The provider's event id. An event is applied once.
    pub id: String,
    /// Customer id at the payment provider.
    pub billing_id: String,
    /// New subscription state.
    pub subscription: Subscription,
    /// Time of the change, by the provider's clock.
    pub at: Timestamp,
}

impl Tenant {
    /// Creates an active tenant with default limits.
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

    /// Returns true if the tenant may use the service at `now`. `grace` applies to an overdue payment.
    pub fn may_use(&self, grace: Duration, now: Timestamp) -> bool {
        match self.subscription {
            Subscription::Active => true,
            Subscription::PastDue => {
                self.inactive_since.is_some_and(|since| now < since.after(grace))
            }
            Subscription::Suspended => false,
        }
    }

    /// Applies a change.
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

    /// Sets the subscription. The grace period starts when the subscription stops being active; later changes
    /// between inactive states do not restart it.
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

/// Applies a billing event. Returns false for an event older than the last applied one, because payment
/// providers repeat events and do not keep their order.
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
