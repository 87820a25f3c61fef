//! Endpoints, and who is told of what happens in a transaction.
//!
//! Transitions are written many at a time by statements that must stay short, so each process remembers who
//! listens and looks at most every [`FRESH`] whether that changed: one row, and no look while nothing
//! happens. Whoever changes an endpoint answers once everybody has had to look.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::accounts::commit_noted;
use super::columns::{Columns, limit, unreadable, without_nul};
use super::database::Transaction;
use super::error::{Tries, Trouble};
use super::params::Param;
use super::submit::insert_in;
use super::{Inner, PostgresStore, sql};
use crate::job::{EventFilter, Json, TenantId, Timestamp};
use crate::store::accounts::AuditEntry;
use crate::store::endpoints::{Endpoint, EndpointChange, Endpoints};
use crate::store::outbox::{EndpointSubscription, Subscriptions};
use crate::store::stored_job::StoredJob;
use crate::store::{NewJob, StoreError};

/// How long what is remembered counts without another look.
const FRESH: Duration = Duration::from_millis(500);

/// Who listens, as far as this process knows.
#[derive(Default)]
pub(super) struct Hearing(
    /// A std mutex: held for a comparison, never across an await.
    Mutex<Option<Heard>>,
);

#[derive(Clone)]
struct Heard {
    listeners: Arc<Subscriptions>,
    version: i64,
    looked_at: Timestamp,
}

impl Hearing {
    fn get(&self) -> Option<Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, heard: Option<Heard>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = heard;
    }
}

/// Deliveries that are owed for what a transaction writes.
#[derive(Default)]
pub(super) struct Owed {
    listeners: Arc<Subscriptions>,
    jobs: Vec<NewJob>,
}

impl Owed {
    pub(super) fn by(listeners: Arc<Subscriptions>) -> Self {
        Self { listeners, jobs: Vec::new() }
    }

    /// Adds what is owed for the transitions of this job that are not written yet.
    pub(super) fn add(&mut self, entry: &StoredJob, result: Option<&Json>) {
        self.jobs.extend(self.listeners.pending_deliveries(entry, result));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Leaves out what is about other jobs than these.
    pub(super) fn keep_only(&mut self, is_kept: impl Fn(&TenantId, crate::job::JobId) -> bool) {
        self.jobs.retain(|new| new.parent_id.is_some_and(|id| is_kept(&new.tenant.owner(), id)));
    }

    /// Writes them. The last thing in a transaction, because lanes are locked in one order everywhere: those
    /// of jobs before those of what tells of them.
    pub(super) async fn write(
        &self,
        transaction: &Transaction,
        now: Timestamp,
    ) -> Result<(), Trouble> {
        if !self.jobs.is_empty() {
            insert_in(transaction, &self.jobs, now).await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Who is told of what happens now.
    pub(super) async fn owed(&self) -> Result<Owed, Trouble> {
        let now = self.clock.now();
        let known = self.hearing.get();
        if let Some(heard) = &known
            && heard.looked_at <= now
            && now < heard.looked_at.after(FRESH)
        {
            return Ok(Owed::by(Arc::clone(&heard.listeners)));
        }
        let mut connection = self.database.connection().await?;
        if let Some(heard) = known {
            let rows = connection.query(sql::ENDPOINT_VERSION, &[]).await?;
            let version: Option<i64> =
                rows.first().map(|row| Columns::of(row).get()).transpose()?;
            if version == Some(heard.version) {
                let listeners = Arc::clone(&heard.listeners);
                self.hearing.set(Some(Heard { looked_at: now, ..heard }));
                return Ok(Owed::by(listeners));
            }
        }
        let (mut listeners, mut version) = (Subscriptions::default(), 0);
        for row in connection.query(sql::LISTENERS, &[]).await? {
            let mut columns = Columns::of(&row);
            version = columns.get()?;
            if let Some(tenant) = columns.get::<Option<&str>>()? {
                let tenant = TenantId::stored(tenant).ok_or_else(|| unreadable("a tenant"))?;
                let (endpoint, events) = (columns.get()?, columns.text(events)?);
                listeners.add(tenant, EndpointSubscription { endpoint, events });
            }
        }
        let listeners = Arc::new(listeners);
        let heard = Heard { listeners: Arc::clone(&listeners), version, looked_at: now };
        self.hearing.set(Some(heard));
        Ok(Owed::by(listeners))
    }

    /// After the commit: tells whoever delivers, here and elsewhere.
    pub(super) fn notify_outbox(&self, owed: &Owed) {
        if !owed.is_empty() {
            self.outbox_notify.notify_one();
            self.notify.line();
        }
    }

    async fn try_save_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), Trouble> {
        let connection = self.database.connection().await?;
        let row = EndpointRow::of(endpoint);
        let (transaction, _) = connection.begin((sql::SAVE_ENDPOINT, &row.params()), None).await?;
        commit_noted(transaction, audit).await?;
        self.hearing.set(None);
        Ok(())
    }

    async fn try_change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, Trouble> {
        let connection = self.database.connection().await?;
        let key: &[&dyn Param] = &[&tenant.as_str(), &id];
        let (transaction, rows) = connection.begin((sql::LOCK_ENDPOINT, key), None).await?;
        let Some(row) = rows.first() else {
            transaction.roll_back().await?;
            return Ok(None);
        };
        let mut endpoint = read(row)?;
        endpoint.change(change, self.clock.now());
        transaction.query(sql::SAVE_ENDPOINT, &EndpointRow::of(&endpoint).params()).await?;
        commit_noted(transaction, audit).await?;
        self.hearing.set(None);
        Ok(Some(endpoint))
    }

    async fn try_delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, Trouble> {
        let connection = self.database.connection().await?;
        let key: &[&dyn Param] = &[&tenant.as_str(), &id];
        let (transaction, rows) = connection.begin((sql::DELETE_ENDPOINT, key), None).await?;
        if rows.is_empty() {
            transaction.roll_back().await?;
            return Ok(false);
        }
        commit_noted(transaction, audit).await?;
        self.hearing.set(None);
        Ok(true)
    }
}

#[async_trait]
impl Endpoints for PostgresStore {
    async fn create_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        persistently!(self.inner.try_save_endpoint(endpoint, audit))
    }

    async fn endpoint(&self, tenant: &TenantId, id: &str) -> Result<Option<Endpoint>, StoreError> {
        let id = without_nul(id);
        let id = &*id;
        let params: &[&dyn Param] = &[&tenant.as_str(), &id];
        let found: Result<Vec<Endpoint>, StoreError> =
            persistently!(self.inner.read_all_of(tenant, sql::ENDPOINT, params, read));
        Ok(found?.pop())
    }

    async fn endpoints(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<Endpoint>, StoreError> {
        let after = without_nul(after.unwrap_or_default());
        let after = &*after;
        let params: &[&dyn Param] = &[&tenant.as_str(), &after, &limit(count)];
        persistently!(self.inner.read_all_of(tenant, sql::ENDPOINTS, params, read))
    }

    async fn change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, StoreError> {
        let id = without_nul(id);
        persistently!(self.inner.try_change_endpoint(tenant, &id, change, audit))
    }

    async fn delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        let id = without_nul(id);
        let mut tries = Tries::default();
        let mut again = false;
        loop {
            match self.inner.try_delete_endpoint(tenant, &id, audit).await {
                // By an earlier try whose answer was lost, or by somebody who wanted the same.
                Ok(deleted) => return Ok(deleted || again),
                Err(trouble) => tries.again(trouble).await?,
            }
            again = true;
        }
    }

    fn endpoint_propagation(&self) -> Duration {
        FRESH
    }
}

/// An endpoint's columns.
struct EndpointRow {
    texts: [String; 6],
    flags: [bool; 2],
    disabled_reason: Option<String>,
    former_secret: Option<String>,
    former_until: Option<i64>,
    ats: [i64; 2],
}

impl EndpointRow {
    fn of(endpoint: &Endpoint) -> Self {
        let text = |text: &str| without_nul(text).into_owned();
        let former = endpoint.former_secret.as_ref();
        Self {
            texts: [
                text(endpoint.tenant.as_str()),
                text(&endpoint.id),
                text(&endpoint.url),
                text(&endpoint.description),
                endpoint.events.to_words(),
                text(&endpoint.sealed_secret),
            ],
            flags: [endpoint.full, endpoint.enabled],
            disabled_reason: endpoint.disabled_reason.as_deref().map(text),
            former_secret: former.map(|(secret, _)| text(secret)),
            former_until: former.map(|(_, until)| until.as_millis()),
            ats: [endpoint.created_at.as_millis(), endpoint.changed_at.as_millis()],
        }
    }

    fn params(&self) -> [&dyn Param; 13] {
        let [tenant, id, url, description, events, secret] = &self.texts;
        let ([full, enabled], [created_at, changed_at]) = (&self.flags, &self.ats);
        [
            tenant,
            id,
            url,
            description,
            events,
            full,
            enabled,
            &self.disabled_reason,
            secret,
            &self.former_secret,
            &self.former_until,
            created_at,
            changed_at,
        ]
    }
}

fn events(words: &str) -> Option<EventFilter> {
    EventFilter::from_words(words).ok()
}

/// In the order of `endpoint.sql`.
fn read(row: &tokio_postgres::Row) -> Result<Endpoint, Trouble> {
    let mut columns = Columns::of(row);
    Ok(Endpoint {
        tenant: columns.text(TenantId::stored)?,
        id: columns.get()?,
        url: columns.get()?,
        description: columns.get()?,
        events: columns.text(events)?,
        full: columns.get()?,
        enabled: columns.get()?,
        disabled_reason: columns.get()?,
        sealed_secret: columns.get()?,
        former_secret: match (columns.get::<Option<String>>()?, columns.opt_at()?) {
            (Some(secret), Some(until)) => Some((secret, until)),
            (None, None) => None,
            _ => return Err(unreadable("a former secret without its end")),
        },
        created_at: columns.at()?,
        changed_at: columns.at()?,
    })
}
