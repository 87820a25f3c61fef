//! Limits on what runs at once and on how fast it starts, over all replicas.
//!
//! A store keeps a meter for each queue, kind and tenant that has a limit: how many of its jobs run,
//! and what is left of its rate. A claim reads the meters of what it is about to take, lets a [`LimitCheck`]
//! decide, and writes them back in its own transaction. A lease remembers which meters counted it, so
//! that its end gives back exactly that, whatever the limits are by then.

use std::collections::HashMap;

use crate::job::{Job, Name, Rate, TenantId, Timestamp, TokenBucket};

/// Limits that hold over all replicas that claim with them. Those that share a store should have the
/// same: each claim is held to the limits that it brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowLimits {
    /// Kinds, and how many jobs of each may run at once.
    pub kinds: Vec<(Name, u32)>,
    /// Queues, each over all tenants.
    pub queues: Vec<(Name, FlowLimit)>,
    /// Tenants, all alike and each on its own.
    pub tenants: FlowLimit,
    /// Tenants that have another limit than all others.
    pub by_tenant: HashMap<TenantId, FlowLimit>,
}

/// What one queue or tenant may do. The default is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowLimit {
    /// Jobs that may run at once. Jobs that began while there was no such limit are not counted.
    pub running_max: Option<u32>,
    /// How fast jobs may start.
    pub rate: Option<Rate>,
}

impl FlowLimit {
    /// At most so many at once.
    pub const fn running(jobs: u32) -> Self {
        Self { running_max: Some(jobs), rate: None }
    }

    /// At most so fast.
    pub const fn rate(rate: Rate) -> Self {
        Self { running_max: None, rate: Some(rate) }
    }

    /// Also at most so fast.
    #[must_use]
    pub const fn and_rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Whether it limits nothing.
    pub const fn is_none(&self) -> bool {
        self.running_max.is_none() && self.rate.is_none()
    }
}

impl FlowLimits {
    /// Whether they limit nothing.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && !self.tenant_limit() && !self.limit_queues()
    }

    /// Whether any tenant has a limit.
    pub fn tenant_limit(&self) -> bool {
        !self.tenants.is_none() || self.by_tenant.values().any(|limit| !limit.is_none())
    }

    /// Whether any queue has a limit.
    pub fn limit_queues(&self) -> bool {
        self.queues.iter().any(|(_, limit)| !limit.is_none())
    }

    /// The limit of a queue.
    pub fn queue(&self, queue: &Name) -> FlowLimit {
        let found = self.queues.iter().find(|(name, _)| name == queue);
        found.map_or(FlowLimit::default(), |(_, limit)| *limit)
    }

    fn of(&self, scope: &Scope) -> FlowLimit {
        match scope {
            Scope::Kind(kind) => {
                let found = self.kinds.iter().find(|(name, _)| name == kind);
                found.map_or(FlowLimit::default(), |(_, jobs)| FlowLimit::running(*jobs))
            }
            Scope::Queue(queue) => self.queue(queue),
            // What a tenant may run is about its jobs, not about telling of them.
            Scope::Tenant(tenant) if tenant.is_outbox() => FlowLimit::default(),
            Scope::Tenant(tenant) => *self.by_tenant.get(tenant).unwrap_or(&self.tenants),
        }
    }
}

/// What a limit is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scope {
    Kind(Name),
    Queue(Name),
    Tenant(TenantId),
}

const KIND: &str = "kind";
const QUEUE: &str = "queue";
const TENANT: &str = "tenant";

impl Scope {
    /// As it is stored.
    pub(crate) fn as_strs(&self) -> (&'static str, &str) {
        match self {
            Self::Kind(name) => (KIND, name.as_str()),
            Self::Queue(name) => (QUEUE, name.as_str()),
            Self::Tenant(tenant) => (TENANT, tenant.as_str()),
        }
    }

    /// From how it is stored.
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

/// Where a job waits, as far as limits are about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitKey<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) kind: &'a Name,
    /// None where no queue has a limit and nobody looked.
    pub(crate) queue: Option<&'a Name>,
}

impl<'a> LimitKey<'a> {
    pub(crate) fn of(job: &'a Job) -> Self {
        Self { tenant: &job.tenant, kind: &job.kind, queue: Some(&job.queue) }
    }

    fn scopes(self) -> impl Iterator<Item = Scope> {
        let queue = self.queue.map(|queue| Scope::Queue(queue.clone()));
        let others = [Scope::Kind(self.kind.clone()), Scope::Tenant(self.tenant.clone())];
        others.into_iter().chain(queue)
    }
}

/// What is kept of a scope. The default is that of one that was never met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LimitCounter {
    /// Jobs that run and were counted.
    pub(crate) running: u64,
    /// None if nothing was ever taken from it.
    pub(crate) bucket: Option<TokenBucket>,
}

/// Lets one claim take what the limits allow, and no more.
#[derive(Debug)]
pub(crate) struct LimitCheck<'a> {
    limits: &'a FlowLimits,
    open: bool,
    now: Timestamp,
    passages: HashMap<Scope, Passage>,
}

/// What a gate knows of one scope.
#[derive(Debug)]
struct Passage {
    limit: FlowLimit,
    meter: LimitCounter,
    /// How many more may pass in this claim.
    left: u64,
    passed: u32,
    /// Whether something had to stay because of it.
    held_back: bool,
}

impl<'a> LimitCheck<'a> {
    pub(crate) fn new(limits: &'a FlowLimits, now: Timestamp) -> Self {
        Self { limits, open: limits.is_empty(), now, passages: HashMap::new() }
    }

    /// Whether nothing is limited.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The scopes of a lane that have limits.
    pub(crate) fn limited(&self, lane: LimitKey<'_>) -> impl Iterator<Item = Scope> {
        lane.scopes().filter(|scope| !self.limits.of(scope).is_none())
    }

    /// Whether this scope's meter is known.
    pub(crate) fn knows(&self, scope: &Scope) -> bool {
        self.passages.contains_key(scope)
    }

    /// Takes note of what the store has of a scope.
    pub(crate) fn learn(&mut self, scope: Scope, meter: LimitCounter) {
        let passage = self.passage(&scope, meter);
        self.passages.insert(scope, passage);
    }

    /// Takes note of a scope that others have exhausted, as far as one can see without its lock. It
    /// counts as holding something back, because nobody looks for what waits behind it.
    #[cfg(feature = "postgres")]
    pub(crate) fn glance(&mut self, scope: Scope, meter: LimitCounter) {
        let passage = self.passage(&scope, meter);
        if passage.left == 0 {
            self.passages.insert(scope, Passage { held_back: true, ..passage });
        }
    }

    fn passage(&self, scope: &Scope, meter: LimitCounter) -> Passage {
        let limit = self.limits.of(scope);
        let by_running =
            limit.running_max.map_or(u64::MAX, |max| u64::from(max).saturating_sub(meter.running));
        let by_rate =
            limit.rate.map_or(u64::MAX, |rate| u64::from(rate.available(meter.bucket, self.now)));
        Passage { limit, meter, left: by_running.min(by_rate), passed: 0, held_back: false }
    }

    /// Lets nothing of this scope pass in this claim, because its meter is in other hands.
    #[cfg(feature = "postgres")]
    pub(crate) fn close(&mut self, scope: Scope) {
        let passage = self.passage(&scope, LimitCounter::default());
        self.passages.insert(scope, Passage { left: 0, ..passage });
    }

    /// Whether one more job of this lane may start. Not if a scope has a limit and no known meter.
    pub(crate) fn admits(&mut self, lane: LimitKey<'_>) -> bool {
        if self.open {
            return true;
        }
        let mut admits = true;
        for scope in lane.scopes() {
            match self.passages.get_mut(&scope) {
                Some(passage) if passage.left == 0 => {
                    passage.held_back = true;
                    admits = false;
                }
                Some(_) => {}
                None => admits &= self.limits.of(&scope).is_none(),
            }
        }
        admits
    }

    /// Keeps a place for one job of this lane.
    pub(crate) fn reserve(&mut self, lane: LimitKey<'_>) {
        if self.open {
            return;
        }
        for scope in lane.scopes() {
            if let Some(passage) = self.passages.get_mut(&scope) {
                passage.left = passage.left.saturating_sub(1);
            }
        }
    }

    /// Counts one job of this lane that a place was kept for. What its lease remembers: the scopes
    /// that it runs in, none if it is counted in none.
    pub(crate) fn pass(&mut self, lane: LimitKey<'_>) -> Option<String> {
        if self.open {
            return None;
        }
        let mut counted = Vec::new();
        for scope in lane.scopes() {
            let Some(passage) = self.passages.get_mut(&scope) else { continue };
            passage.passed += 1;
            if passage.limit.running_max.is_some() {
                counted.push(scope.as_strs().0);
            }
        }
        (!counted.is_empty()).then(|| counted.join(" "))
    }

    /// The scopes that let nothing more pass.
    #[cfg(feature = "postgres")]
    pub(crate) fn closed(&self) -> impl Iterator<Item = &Scope> {
        self.passages.iter().filter(|(_, passage)| passage.left == 0).map(|(scope, _)| scope)
    }

    /// The meters that changed, as they are to be written, in the order of their keys.
    pub(crate) fn changed(&self) -> Vec<(&Scope, LimitCounter)> {
        let changed = |(_, passage): &(&Scope, &Passage)| passage.passed > 0;
        let mut changed: Vec<_> = self.passages.iter().filter(changed).collect();
        changed.sort_unstable_by_key(|(scope, _)| *scope);
        changed.into_iter().map(|(scope, passage)| (scope, passage.after(self.now))).collect()
    }

    /// When a rate that held something back next lets a job start.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let waits = self.passages.values().filter(|passage| passage.held_back);
        waits
            .filter_map(|passage| {
                let next_at = passage.limit.rate?.next_at(passage.after(self.now).bucket, self.now);
                next_at.filter(|at| *at > self.now)
            })
            .min()
    }
}

impl Passage {
    /// The meter with what passed.
    fn after(&self, now: Timestamp) -> LimitCounter {
        let LimitCounter { mut running, mut bucket } = self.meter;
        if self.limit.running_max.is_some() {
            running += u64::from(self.passed);
        }
        if let Some(rate) = self.limit.rate.filter(|_| self.passed > 0) {
            bucket = Some(rate.take(bucket, self.passed, now));
        }
        LimitCounter { running, bucket }
    }
}
