//! Transactional outbox: inserts webhook deliveries in the transaction that records the event.

use rusqlite::params;

use crate::job::{EventFilter, Json, TenantId};
use crate::store::outbox::{EndpointSubscription, Subscriptions};
use crate::store::sqlite::connection::columns::Columns;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::Row;
use crate::store::sqlite::sql;
use crate::store::stored_job::StoredJob;

/// Writes the deliveries that are owed for what just happened to a job.
pub(crate) fn write_deliveries(
    tx: &Tx<'_>,
    stored: &StoredJob,
    result: Option<&Json>,
) -> rusqlite::Result<()> {
    if stored.events.is_empty() || stored.job.tenant.is_outbox() {
        return Ok(());
    }
    let mut known = tx.listeners.borrow_mut();
    let listeners = match &mut *known {
        Some(listeners) => listeners,
        none => none.insert(listeners(tx)?),
    };
    let owed = listeners.pending_deliveries(stored, result);
    drop(known);
    for new in &owed {
        let mut row = Row::new(StoredJob::accepted(new, tx.now), new.fingerprint);
        if row.insert(tx)? {
            tx.run(sql::INSERT_INPUT, params![row.seq, new.input.as_str()])?;
            tx.wrote_deliveries.set(true);
        }
    }
    Ok(())
}

fn listeners(tx: &Tx<'_>) -> rusqlite::Result<Subscriptions> {
    let mut listeners = Subscriptions::default();
    for (tenant, listener) in tx.all(sql::SUBSCRIPTIONS, [], |row| {
        let mut columns = Columns::of(row);
        let tenant = columns.text(TenantId::stored)?;
        Ok((
            tenant,
            EndpointSubscription { endpoint: columns.get()?, events: columns.text(event_filter)? },
        ))
    })? {
        listeners.add(tenant, listener);
    }
    Ok(listeners)
}

fn event_filter(words: &str) -> Option<EventFilter> {
    EventFilter::from_words(words).ok()
}
