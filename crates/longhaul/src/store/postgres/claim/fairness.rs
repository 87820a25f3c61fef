//! Fair selection: a pure choice between the first jobs of each lane.
//!
//! Round-robin, one job per tenant and round, so that a tenant's 100,000 jobs do not delay another
//! tenant's single job. Inside a tenant the lowest rank goes first, over all of its lanes. Deliveries are
//! selected one per queue and round.

use std::collections::HashMap;

use crate::job::{JobId, Name, TenantId, Timestamp};
use crate::store::limits::{LimitCheck, LimitKey};
use crate::store::{Claim, QueueCapacity};

/// Milliseconds of waiting that one point of priority is worth.
const PRIORITY_POINT_MS: i64 = 60_000;

/// A job that may be claimed.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) tenant: TenantId,
    pub(crate) queue: Name,
    pub(crate) kind: Name,
    pub(crate) priority: i32,
    pub(crate) run_at: Timestamp,
    pub(crate) id: JobId,
}

impl Head {
    pub(crate) fn lane(&self) -> LimitKey<'_> {
        LimitKey { tenant: &self.tenant, kind: &self.kind, queue: Some(&self.queue) }
    }

    /// Returns the claim order inside a tenant: one minute of waiting outweighs one point of priority.
    fn rank(&self) -> (i64, JobId) {
        let head_start = i64::from(self.priority) * PRIORITY_POINT_MS;
        (self.run_at.as_millis().saturating_sub(head_start), self.id)
    }
}

/// Remaining capacity while a claim runs.
pub(crate) struct Picker<'a> {
    left: usize,
    room: HashMap<&'a str, usize>,
    /// Remaining capacity of the queues that jobs were taken from, if the claim is round-robin over
    /// queues.
    rooms: Option<(&'a QueueCapacity, HashMap<Name, usize>)>,
}

impl<'a> Picker<'a> {
    pub(crate) fn new(want: &'a Claim) -> Self {
        let room = want.kinds.iter().map(|kind| (kind.kind.as_str(), kind.capacity)).collect();
        let rooms = want.queue_capacity.as_ref().map(|rooms| (rooms, HashMap::new()));
        Self { left: want.limit, room, rooms }
    }

    /// Returns the indexes in `heads` of the jobs to take, in claim order.
    ///
    /// Round-robin over tenants, or over queues, in the order of their first occurrence.
    pub(crate) fn pick(&mut self, heads: &[Head], gate: &mut LimitCheck<'_>) -> Vec<usize> {
        let mut tenants: Vec<Vec<usize>> = Vec::new();
        let mut place_of: HashMap<(&TenantId, Option<&Name>), usize> = HashMap::new();
        for (place, head) in heads.iter().enumerate() {
            let queue = self.rooms.is_some().then_some(&head.queue);
            let tenant = *place_of.entry((&head.tenant, queue)).or_insert_with(|| {
                tenants.push(Vec::new());
                tenants.len() - 1
            });
            if let Some(line) = tenants.get_mut(tenant) {
                line.push(place);
            }
        }
        let rank = |place: &usize| heads.get(*place).map(Head::rank);
        for line in &mut tenants {
            // In reverse, because jobs are popped from the end.
            line.sort_unstable_by_key(|place| std::cmp::Reverse(rank(place)));
        }
        let mut picked = Vec::new();
        while !tenants.is_empty() && self.left > 0 {
            tenants.retain_mut(|line| {
                if self.left == 0 {
                    return false;
                }
                // A job without capacity now, or beyond a limit, stays so for the rest of this claim.
                while let Some(place) = line.pop() {
                    if heads.get(place).is_some_and(|head| self.takes(head, gate)) {
                        picked.push(place);
                        return true;
                    }
                }
                false
            });
        }
        picked
    }

    fn takes(&mut self, head: &Head, gate: &mut LimitCheck<'_>) -> bool {
        let Some(room) = self.room.get_mut(head.kind.as_str()) else { return false };
        if *room == 0 || !gate.admits(head.lane()) {
            return false;
        }
        if let Some((rooms, left)) = &mut self.rooms {
            let left = left.entry(head.queue.clone()).or_insert_with(|| rooms.of(&head.queue));
            if *left == 0 {
                return false;
            }
            *left -= 1;
        }
        gate.reserve(head.lane());
        *room -= 1;
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::limits::{LimitCounter, Scope};
    use crate::store::{FlowLimit, FlowLimits, KindCapacity};
    use std::sync::Arc;
    use std::time::Duration;

    fn head(tenant: &str, kind: &str, priority: i32, run_at: i64, id: u128) -> Head {
        Head {
            tenant: TenantId::new(tenant).unwrap(),
            queue: Name::default_queue(),
            kind: Name::new(kind).unwrap(),
            priority,
            run_at: Timestamp::from_millis(run_at),
            id: JobId::from_parts(Timestamp::from_millis(0), id),
        }
    }

    fn want(limit: usize, rooms: &[(&str, usize)]) -> Claim {
        let kind = |(kind, room): &(&str, usize)| KindCapacity {
            kind: Name::new(kind).unwrap(),
            capacity: *room,
            code_version: None,
        };
        let kinds = rooms.iter().map(kind).collect();
        Claim {
            replica: "r".into(),
            limit,
            lease: Duration::from_secs(15),
            kinds,
            limits: Arc::default(),
            queue_capacity: None,
        }
    }

    fn pick(heads: &[Head], want: &Claim) -> Vec<usize> {
        let mut gate = LimitCheck::new(&want.limits, Timestamp::from_millis(0));
        Picker::new(want).pick(heads, &mut gate)
    }

    #[test]
    fn tenants_take_turns_and_each_ones_line_is_in_order() {
        let heads = [
            head("a", "x", 0, 30, 1),
            head("a", "x", 0, 10, 2),
            head("a", "x", 1, 40, 3),
            head("b", "x", 0, 99, 4),
        ];
        assert_eq!(pick(&heads, &want(9, &[("x", 9)])), [2, 3, 1, 0]);
        assert_eq!(pick(&heads, &want(2, &[("x", 9)])), [2, 3]);
    }

    #[test]
    fn kinds_without_room_are_passed_over() {
        let heads = [head("a", "x", 0, 1, 1), head("a", "y", 0, 2, 2), head("a", "x", 0, 3, 3)];
        assert_eq!(pick(&heads, &want(9, &[("x", 1), ("y", 5)])), [0, 1]);
        assert_eq!(pick(&heads, &want(9, &[("y", 5)])), [1]);
    }

    #[test]
    fn held_back_tenant_is_passed_over() {
        let heads = [head("a", "x", 0, 1, 1), head("a", "x", 0, 2, 2), head("b", "x", 0, 3, 3)];
        let limits = FlowLimits { tenants: FlowLimit::running(1), ..FlowLimits::default() };
        let want = want(9, &[("x", 9)]);
        let mut gate = LimitCheck::new(&limits, Timestamp::from_millis(0));
        let mut pick = |meters: [(&str, u64); 2]| {
            for (tenant, running) in meters {
                let scope = Scope::Tenant(TenantId::new(tenant).unwrap());
                gate.learn(scope, LimitCounter { running, bucket: None });
            }
            Picker::new(&want).pick(&heads, &mut gate)
        };
        assert_eq!(pick([("a", 0), ("b", 0)]), [0, 2]);
        assert_eq!(pick([("a", 1), ("b", 0)]), [2]);
    }

    #[test]
    fn what_has_a_limit_and_was_never_looked_up_is_held_back() {
        let limits = FlowLimits { tenants: FlowLimit::running(1), ..FlowLimits::default() };
        let mut gate = LimitCheck::new(&limits, Timestamp::from_millis(0));
        assert_eq!(
            Picker::new(&want(9, &[("x", 9)])).pick(&[head("a", "x", 0, 1, 1)], &mut gate),
            [0_usize; 0]
        );
    }
}
