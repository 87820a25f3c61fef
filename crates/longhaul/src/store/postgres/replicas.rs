//! Replica heartbeats and the replica list.

use tokio_postgres::Client;

use super::connection::columns::{millis, read_first, to_json, without_nul};
use super::connection::database::query_unprepared;
use super::connection::error::PgError;
use super::connection::timeouts::within;
use super::{Inner, sql};
use crate::store::rows::with_liveness;
use crate::store::{Heartbeat, REPLICA_FORGOTTEN_AFTER, ReplicaState, StoreError};

impl Inner {
    /// Records a replica's heartbeat over the reserved connection.
    pub(super) async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), PgError> {
        let heartbeat = async {
            let connection = self.reserved.acquire(&self.database).await?;
            let written = self.write_heartbeat(&connection, beat).await;
            connection.finish(written)
        };
        within(self.database.timeouts().reserved, heartbeat).await
    }

    async fn write_heartbeat(&self, client: &Client, beat: &Heartbeat) -> Result<(), PgError> {
        let now = self.clock.now().as_millis();
        let forgotten = now.saturating_sub(millis(REPLICA_FORGOTTEN_AFTER));
        query_unprepared(client, sql::FORGET_REPLICAS, &[&forgotten]).await?;
        let written = query_unprepared(
            client,
            sql::HEARTBEAT,
            &[
                &without_nul(&beat.replica),
                &beat.run.cast_signed(),
                &without_nul(&beat.role),
                &without_nul(&beat.version),
                &without_nul(&beat.host),
                &i64::from(beat.pid),
                &to_json(&beat.kinds)?,
                &i64::from(beat.running),
                &i64::from(beat.concurrency),
                &millis(beat.silent_after),
                &now,
                &without_nul(&beat.process),
            ],
        )
        .await?;
        let peers: Option<u64> = read_first(&written)?;
        let peers = peers.ok_or_else(|| StoreError::NameTaken { replica: beat.replica.clone() })?;
        self.notify.set_has_peers(peers > 0);
        Ok(())
    }

    /// Returns the replicas with a recent heartbeat.
    pub(super) async fn replicas(&self) -> Result<Vec<ReplicaState>, PgError> {
        Ok(with_liveness(self.all(sql::REPLICAS, &[]).await?, self.clock.now()))
    }

    /// Removes a replica whose process has ended, and expires its leases.
    pub(super) async fn take_over(&self, replica: &str, run: u64) -> Result<(), PgError> {
        let now = self.clock.now();
        self.run(sql::TAKE_OVER, &[&without_nul(replica), &run.cast_signed(), &now]).await?;
        Ok(())
    }

    /// Removes a replica.
    pub(super) async fn deregister(&self, replica: &str) -> Result<(), PgError> {
        self.run(sql::DEREGISTER, &[&without_nul(replica)]).await?;
        Ok(())
    }
}
