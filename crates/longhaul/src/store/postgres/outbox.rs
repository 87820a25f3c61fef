//! The transactional outbox: deliveries for the job events of a transaction.
//!
//! Events are written in batches by short statements, so each process caches the webhook subscriptions
//! and checks at most every [`CACHE_TTL`] whether they changed, by reading one row. An idle process reads
//! nothing. The server answers a change of an endpoint only after all caches have expired.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::connection::columns::Columns;
use super::connection::database::Transaction;
use super::connection::error::PgError;
use super::settle::TenantJob;
use super::submit::insert_in;
use super::{Inner, sql};
use crate::job::{Json, TenantId, Timestamp};
use crate::store::NewJob;
use crate::store::columns::ReadColumns;
use crate::store::outbox::{EndpointSubscription, Subscriptions};
use crate::store::stored_job::StoredJob;

/// Time for which cached subscriptions are used without a check.
pub(super) const CACHE_TTL: Duration = Duration::from_millis(500);

/// This process's cache of webhook subscriptions.
#[derive(Default)]
pub(super) struct SubscriptionCache(
    /// A std mutex: locked for a copy, never across an await.
    Mutex<Option<CachedSubscriptions>>,
);

#[derive(Clone)]
struct CachedSubscriptions {
    subscriptions: Arc<Subscriptions>,
    version: i64,
    checked_at: Timestamp,
}

impl SubscriptionCache {
    fn get(&self) -> Option<CachedSubscriptions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, cached: Option<CachedSubscriptions>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cached;
    }

    pub(super) fn clear(&self) {
        self.set(None);
    }
}

/// Deliveries of one transaction, not yet written.
#[derive(Default)]
pub(super) struct Outbox {
    subscriptions: Arc<Subscriptions>,
    deliveries: Vec<NewJob>,
}

impl Outbox {
    fn new(subscriptions: Arc<Subscriptions>) -> Self {
        Self { subscriptions, deliveries: Vec::new() }
    }

    /// Adds the deliveries for the job's events that are not written yet.
    pub(super) fn add(&mut self, entry: &StoredJob, result: Option<&Json>) {
        self.deliveries.extend(self.subscriptions.pending_deliveries(entry, result));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Drops the deliveries of all other jobs.
    pub(super) fn retain_jobs(&mut self, jobs: &HashSet<TenantJob>) {
        let is_kept = |new: &NewJob| Some(jobs.contains(&(new.tenant.owner(), new.parent_id?)));
        self.deliveries.retain(|new| is_kept(new).unwrap_or(false));
    }

    /// Writes the deliveries. Must be the last write of its transaction, because lanes are locked in one
    /// order everywhere: those of jobs before those of their deliveries.
    pub(super) async fn write(
        &self,
        transaction: &Transaction,
        now: Timestamp,
    ) -> Result<(), PgError> {
        if !self.deliveries.is_empty() {
            insert_in(transaction, &self.deliveries, now).await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Returns an empty outbox with the current subscriptions.
    pub(super) async fn outbox(&self) -> Result<Outbox, PgError> {
        let now = self.clock.now();
        let cached = self.subscriptions.get();
        if let Some(cached) = &cached
            && cached.checked_at <= now
            && now < cached.checked_at.after(CACHE_TTL)
        {
            return Ok(Outbox::new(Arc::clone(&cached.subscriptions)));
        }
        let mut connection = self.database.connection().await?;
        if let Some(cached) = cached {
            let version = connection.first(sql::ENDPOINT_VERSION, &[]).await?;
            if version == Some(cached.version) {
                let subscriptions = Arc::clone(&cached.subscriptions);
                self.subscriptions.set(Some(CachedSubscriptions { checked_at: now, ..cached }));
                return Ok(Outbox::new(subscriptions));
            }
        }
        let (mut subscriptions, mut version) = (Subscriptions::default(), 0);
        for row in connection.query(sql::SUBSCRIPTIONS, &[]).await? {
            let mut columns = Columns::of(&row);
            version = columns.get()?;
            if let Some(tenant) = columns.get::<Option<TenantId>>()? {
                let (endpoint, events) = columns.get()?;
                subscriptions.add(tenant, EndpointSubscription { endpoint, events });
            }
        }
        let subscriptions = Arc::new(subscriptions);
        let cached = Arc::clone(&subscriptions);
        let cached = CachedSubscriptions { subscriptions: cached, version, checked_at: now };
        self.subscriptions.set(Some(cached));
        Ok(Outbox::new(subscriptions))
    }

    /// Writes the deliveries and commits, and then wakes the delivery workers of all replicas.
    pub(super) async fn commit_with_outbox(
        &self,
        transaction: Transaction,
        outbox: &Outbox,
        now: Timestamp,
    ) -> Result<(), PgError> {
        outbox.write(&transaction, now).await?;
        transaction.commit().await?;
        self.notify_outbox(outbox);
        Ok(())
    }

    /// Wakes the delivery workers of all replicas. Called after the commit.
    pub(super) fn notify_outbox(&self, outbox: &Outbox) {
        if !outbox.is_empty() {
            self.outbox_notify.notify_one();
            self.notify.jobs_ready();
        }
    }
}
