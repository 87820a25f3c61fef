//! Transactional outbox: inserts webhook deliveries in the transaction that records the event.

use crate::job::Json;
use crate::store::outbox::{EndpointSubscription, Subscriptions};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::stored_job::StoredJob;

/// Inserts the deliveries for the unwritten events of a job.
pub(crate) fn write_deliveries(
    tx: &Tx<'_>,
    stored: &StoredJob,
    result: Option<&Json>,
) -> rusqlite::Result<()> {
    if stored.events.is_empty() || stored.job.tenant.is_outbox() {
        return Ok(());
    }
    let mut known = tx.caches.subscriptions.borrow_mut();
    let subscriptions = match &mut *known {
        Some(subscriptions) => subscriptions,
        none => none.insert(read_subscriptions(tx)?),
    };
    let deliveries = subscriptions.pending_deliveries(stored, result);
    drop(known);
    for new in &deliveries {
        let mut row = JobRow::new(StoredJob::accepted(new, tx.now), new.fingerprint);
        if row.insert(tx, &new.input)? {
            tx.wrote_deliveries.set(true);
        }
    }
    Ok(())
}

fn read_subscriptions(tx: &Tx<'_>) -> rusqlite::Result<Subscriptions> {
    let mut subscriptions = Subscriptions::default();
    for (tenant, endpoint, events) in tx.all(sql::SUBSCRIPTIONS, [])? {
        subscriptions.add(tenant, EndpointSubscription { endpoint, events });
    }
    Ok(subscriptions)
}
