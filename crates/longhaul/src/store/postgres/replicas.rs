//! Replica heartbeats, the replica list and job versions.

use super::connection::columns::{Columns, millis, to_json, without_nul};
use super::connection::database::query_unprepared;
use super::connection::error::PgError;
use super::{Inner, sql};
use crate::job::{JobId, Status, TenantId, Timestamp};
use crate::store::{Heartbeat, JobVersion, REPLICA_FORGOTTEN_AFTER, ReplicaState, StoreError};

impl Inner {
    /// Records a replica's heartbeat.
    pub(super) async fn try_heartbeat(&self, beat: &Heartbeat) -> Result<(), PgError> {
        let now = self.clock.now().as_millis();
        let forgotten = now.saturating_sub(millis(REPLICA_FORGOTTEN_AFTER));
        let mut heartbeat = self.heartbeat.lock().await;
        let client = self.heartbeat_client(&mut heartbeat).await?;
        query_unprepared(client, sql::FORGET_REPLICAS, &[&forgotten]).await?;
        let written = query_unprepared(
            client,
            sql::HEARTBEAT,
            &[
                &&*without_nul(&beat.replica),
                &beat.run.cast_signed(),
                &&*without_nul(&beat.role),
                &&*without_nul(&beat.version),
                &&*without_nul(&beat.host),
                &i64::from(beat.pid),
                &to_json(&beat.kinds)?,
                &i64::from(beat.running),
                &i64::from(beat.concurrency),
                &millis(beat.silent_after),
                &now,
            ],
        )
        .await?;
        let Some(row) = written.first() else {
            return Err(StoreError::NameTaken { replica: beat.replica.clone() }.into());
        };
        self.notify.set_has_peers(Columns::of(row).get::<i64>()? > 0);
        Ok(())
    }

    /// Returns the replicas with a recent heartbeat.
    pub(super) async fn try_replicas(&self) -> Result<Vec<ReplicaState>, PgError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::REPLICAS, &[]).await?;
        let now = self.clock.now();
        rows.iter().map(|row| read(&mut Columns::of(row), now)).collect()
    }

    /// Removes a replica.
    pub(super) async fn try_deregister(&self, replica: &str) -> Result<(), PgError> {
        let mut connection = self.database.connection().await?;
        connection.query(sql::DEREGISTER, &[&&*without_nul(replica)]).await?;
        Ok(())
    }

    /// Returns the versions of watched jobs.
    pub(super) async fn try_versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, PgError> {
        let tenants: Vec<&str> = jobs.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let ids: Vec<String> = jobs.iter().map(|(_, id)| id.to_string()).collect();
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::VERSIONS, &[&tenants, &ids]).await?;
        let glimpse = |row: &tokio_postgres::Row| {
            let mut columns = Columns::of(row);
            if columns.get::<Option<i64>>()?.is_none() {
                return Ok(None);
            }
            let mut columns = Columns::of(row);
            let version = columns.count()?;
            Ok(Some(JobVersion { version, status: columns.text(Status::parse)? }))
        };
        rows.iter().map(glimpse).collect()
    }
}

/// Reads a row of `replicas.sql`.
fn read(columns: &mut Columns<'_>, now: Timestamp) -> Result<ReplicaState, PgError> {
    let beat = Heartbeat {
        replica: columns.get()?,
        run: columns.get::<i64>()?.cast_unsigned(),
        role: columns.get()?,
        version: columns.get()?,
        host: columns.get()?,
        pid: columns.number()?,
        kinds: columns.opt_json()?.unwrap_or_default(),
        running: columns.number()?,
        concurrency: columns.number()?,
        silent_after: columns.duration()?,
    };
    let (started_at, seen_at) = (columns.at()?, columns.at()?);
    Ok(ReplicaState { alive: beat.is_alive(seen_at, now), heartbeat: beat, started_at, seen_at })
}
