//! Values for tests of stores.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::BTreeMap;

use super::{NewJob, Start};
use crate::job::{Fingerprint, JobId, Json, Name, Retention, TenantId};

/// Returns a submission of kind `demo` with default values.
pub(super) fn new_job(id: JobId, input: Json) -> NewJob {
    let kind = Name::new("demo").unwrap();
    NewJob {
        tenant: TenantId::default(),
        id,
        fingerprint: Fingerprint::of(&kind, &input, None).unwrap(),
        kind,
        queue: Name::default_queue(),
        priority: 0,
        input,
        idempotency_key: None,
        start: Start::Now,
        max_attempts: 3,
        timeout: None,
        labels: BTreeMap::new(),
        retention: Retention::default(),
        parent_id: None,
        payload: None,
        key_id: None,
        webhook: None,
    }
}
