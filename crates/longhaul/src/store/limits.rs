//! Concurrency and rate limits over all replicas.
//!
//! A store keeps a counter for each queue, kind and tenant with a limit: the number of its running jobs and
//! the level of its token bucket. A claim reads the counters of its candidates, lets a [`LimitCheck`] decide,
//! and writes the counters back in its transaction. A lease records which counters include it, so that its
//! end decrements exactly those, even if the limits have changed.

use std::collections::HashMap;

use crate::job::{Job, Name, Rate, TenantId, Timestamp, TokenBucket};

/// Limits that apply over all replicas. Replicas that share a store should have the same limits, because each
/// claim applies its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowLimits {
    /// Maximum number of running jobs by kind.
    pub kinds: Vec<(Name, u32)>,
    /// Limits of queues, each over all tenants.
    pub queues: Vec<(Name, FlowLimit)>,
    /// Limit of each tenant that is not in `by_tenant`.
    pub tenants: FlowLimit,
    /// Limits of single tenants.
    pub by_tenant: HashMap<TenantId, FlowLimit>,
}

/// The limit of one queue or tenant. Defaults to no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowLimit {
    /// Maximum number of running jobs. Jobs that started before the limit existed are not counted.
    pub running_max: Option<u32>,
    /// Maximum rate of starts.
    pub rate: Option<Rate>,
}

impl FlowLimit {
    /// Returns a concurrency limit.
    pub const fn running(jobs: u32) -> Self {
        Self { running_max: Some(jobs), rate: None }
    }

    /// Returns a rate limit.
    pub const fn rate(rate: Rate) -> Self {
        Self { running_max: None, rate: Some(rate) }
    }

    /// Adds a rate limit.
    #[must_use]
    pub const fn and_rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Returns true if there is no limit.
    pub const fn is_none(&self) -> bool {
        self.running_max.is_none() && self.rate.is_none()
    }
}

impl FlowLimits {
    /// Returns true if there is no limit.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && !self.tenant_limit() && !self.limit_queues()
    }

    /// Returns true if any tenant has a limit.
    pub fn tenant_limit(&self) -> bool {
        !self.tenants.is_none() || self.by_tenant.values().any(|limit| !limit.is_none())
    }

    /// Returns true if any queue has a limit.
    pub fn limit_queues(&self) -> bool {
        self.queues.iter().any(|(_, limit)| !limit.is_none())
    }

    /// Returns true if a job has a limit.
    pub fn apply_to(&self, tenant: &TenantId, kind: &Name, queue: &Name) -> bool {
        let scopes = [
            LimitScope::Tenant(tenant.clone()),
            LimitScope::Kind(kind.clone()),
            LimitScope::Queue(queue.clone()),
        ];
        scopes.iter().any(|scope| !self.of(scope).is_none())
    }

    /// Returns the limit of a queue.
    pub fn queue(&self, queue: &Name) -> FlowLimit {
        let found = self.queues.iter().find(|(name, _)| name == queue);
        found.map_or(FlowLimit::default(), |(_, limit)| *limit)
    }

    fn of(&self, scope: &LimitScope) -> FlowLimit {
        match scope {
            LimitScope::Kind(kind) => {
                let found = self.kinds.iter().find(|(name, _)| name == kind);
                found.map_or(FlowLimit::default(), |(_, jobs)| FlowLimit::running(*jobs))
            }
            LimitScope::Queue(queue) => self.queue(queue),
            // Deliveries do not count against a tenant's limit.
            LimitScope::Tenant(tenant) if tenant.is_outbox() => FlowLimit::default(),
            LimitScope::Tenant(tenant) => *self.by_tenant.get(tenant).unwrap_or(&self.tenants),
        }
    }
}

/// The scope of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LimitScope {
    Kind(Name),
    Queue(Name),
    Tenant(TenantId),
}

const KIND: &str = "kind";
const QUEUE: &str = "queue";
const TENANT: &str = "tenant";

impl LimitScope {
    /// Returns scope and name as stored.
    pub(crate) fn as_strs(&self) -> (&'static str, &str) {
        match self {
            Self::Kind(name) => (KIND, name.as_str()),
            Self::Queue(name) => (QUEUE, name.as_str()),
            Self::Tenant(tenant) => (TENANT, tenant.as_str()),
        }
    }

    /// Parses a stored scope and name.
    #[cfg(feature = "postgres")]
    pub(crate) fn parse(scope: &str, name: &str) -> Option<Self> {
        match scope {
            KIND => Name::new(name).ok().map(Self::Kind),
            QUEUE => Name::new(name).ok().map(Self::Queue),
            TENANT => TenantId::stored(name).map(Self::Tenant),
            _ => None,
        }
    }
}

/// The names of a job that select its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitKey<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) kind: &'a Name,
    /// `None` if no queue has a limit, because the queue is then not read.
    pub(crate) queue: Option<&'a Name>,
}

impl<'a> LimitKey<'a> {
    pub(crate) fn of(job: &'a Job) -> Self {
        Self { tenant: &job.tenant, kind: &job.kind, queue: Some(&job.queue) }
    }

    fn scopes(self) -> impl Iterator<Item = LimitScope> {
        let queue = self.queue.map(|queue| LimitScope::Queue(queue.clone()));
        let others = [LimitScope::Kind(self.kind.clone()), LimitScope::Tenant(self.tenant.clone())];
        others.into_iter().chain(queue)
    }
}

/// The stored state of a scope. Defaults to the state of an unused scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LimitCounter {
    /// Running jobs that were counted.
    pub(crate) running: u64,
    /// `None` if the rate limit was never used.
    pub(crate) bucket: Option<TokenBucket>,
}

/// A check of the limits for the jobs of one claim.
#[derive(Debug)]
pub(crate) struct LimitCheck<'a> {
    limits: &'a FlowLimits,
    open: bool,
    now: Timestamp,
    scopes: HashMap<LimitScope, Allowance>,
}

/// A scope's remaining allowance during one claim.
#[derive(Debug)]
struct Allowance {
    limit: FlowLimit,
    meter: LimitCounter,
    /// Jobs that this claim may still take.
    left: u64,
    counted_starts: u32,
    /// True if the limit held a job back.
    held_back: bool,
}

impl<'a> LimitCheck<'a> {
    pub(crate) fn new(limits: &'a FlowLimits, now: Timestamp) -> Self {
        Self { limits, open: limits.is_empty(), now, scopes: HashMap::new() }
    }

    /// Returns true if there are no limits.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the scopes of a job that have limits.
    pub(crate) fn limited(&self, lane: LimitKey<'_>) -> impl Iterator<Item = LimitScope> {
        lane.scopes().filter(|scope| !self.limits.of(scope).is_none())
    }

    /// Returns true if this scope's counter was loaded.
    pub(crate) fn knows(&self, scope: &LimitScope) -> bool {
        self.scopes.contains_key(scope)
    }

    /// Loads the stored counter of a scope.
    pub(crate) fn learn(&mut self, scope: LimitScope, meter: LimitCounter) {
        let allowance = self.allowance(&scope, meter);
        self.scopes.insert(scope, allowance);
    }

    /// Loads a counter that was read without its lock, if it is exhausted. The scope counts as holding a job
    /// back, because candidates behind it are not read.
    #[cfg(feature = "postgres")]
    pub(crate) fn glance(&mut self, scope: LimitScope, meter: LimitCounter) {
        let allowance = self.allowance(&scope, meter);
        if allowance.left == 0 {
            self.scopes.insert(scope, Allowance { held_back: true, ..allowance });
        }
    }

    fn allowance(&self, scope: &LimitScope, meter: LimitCounter) -> Allowance {
        let limit = self.limits.of(scope);
        let by_running =
            limit.running_max.map_or(u64::MAX, |max| u64::from(max).saturating_sub(meter.running));
        let by_rate =
            limit.rate.map_or(u64::MAX, |rate| u64::from(rate.available(meter.bucket, self.now)));
        Allowance {
            limit,
            meter,
            left: by_running.min(by_rate),
            counted_starts: 0,
            held_back: false,
        }
    }

    /// Excludes a scope from this claim, because another claim has locked its counter.
    #[cfg(feature = "postgres")]
    pub(crate) fn close(&mut self, scope: LimitScope) {
        let allowance = self.allowance(&scope, LimitCounter::default());
        self.scopes.insert(scope, Allowance { left: 0, ..allowance });
    }

    /// Returns true if one more job may start. False if a limited scope has no loaded counter.
    pub(crate) fn admits(&mut self, lane: LimitKey<'_>) -> bool {
        if self.open {
            return true;
        }
        let mut admits = true;
        for scope in lane.scopes() {
            match self.scopes.get_mut(&scope) {
                Some(allowance) if allowance.left == 0 => {
                    allowance.held_back = true;
                    admits = false;
                }
                Some(_) => {}
                None => admits &= self.limits.of(&scope).is_none(),
            }
        }
        admits
    }

    /// Reserves one start.
    pub(crate) fn reserve(&mut self, lane: LimitKey<'_>) {
        if self.open {
            return;
        }
        for scope in lane.scopes() {
            if let Some(allowance) = self.scopes.get_mut(&scope) {
                allowance.left = allowance.left.saturating_sub(1);
            }
        }
    }

    /// Counts one reserved start. Returns the scopes whose running counters include the job, which the lease
    /// records; `None` if there are none.
    pub(crate) fn pass(&mut self, lane: LimitKey<'_>) -> Option<String> {
        if self.open {
            return None;
        }
        let mut counted = Vec::new();
        for scope in lane.scopes() {
            let Some(allowance) = self.scopes.get_mut(&scope) else { continue };
            allowance.counted_starts += 1;
            if allowance.limit.running_max.is_some() {
                counted.push(scope.as_strs().0);
            }
        }
        (!counted.is_empty()).then(|| counted.join(" "))
    }

    /// Returns the exhausted scopes.
    #[cfg(feature = "postgres")]
    pub(crate) fn closed(&self) -> impl Iterator<Item = &LimitScope> {
        self.scopes.iter().filter(|(_, allowance)| allowance.left == 0).map(|(scope, _)| scope)
    }

    /// Returns the changed counters in the order of their keys, which is the lock order.
    pub(crate) fn changed(&self) -> Vec<(&LimitScope, LimitCounter)> {
        let changed = |(_, allowance): &(&LimitScope, &Allowance)| allowance.counted_starts > 0;
        let mut changed: Vec<_> = self.scopes.iter().filter(changed).collect();
        changed.sort_unstable_by_key(|(scope, _)| *scope);
        changed.into_iter().map(|(scope, allowance)| (scope, allowance.after(self.now))).collect()
    }

    /// Returns the next time at which a rate limit that held a job back admits one.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let waits = self.scopes.values().filter(|allowance| allowance.held_back);
        waits
            .filter_map(|allowance| {
                let next_at =
                    allowance.limit.rate?.next_at(allowance.after(self.now).bucket, self.now);
                next_at.filter(|at| *at > self.now)
            })
            .min()
    }
}

impl Allowance {
    /// Returns the counter after this claim.
    fn after(&self, now: Timestamp) -> LimitCounter {
        let LimitCounter { mut running, mut bucket } = self.meter;
        if self.limit.running_max.is_some() {
            running += u64::from(self.counted_starts);
        }
        if let Some(rate) = self.limit.rate.filter(|_| self.counted_starts > 0) {
            bucket = Some(rate.take(bucket, self.counted_starts, now));
        }
        LimitCounter { running, bucket }
    }
}
