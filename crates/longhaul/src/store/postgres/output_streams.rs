//! Output streams of running attempts, for readers on other replicas.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::batch::columns;
use super::connection::columns::{int, limit, to_json};
use super::connection::error::PgError;
use super::{Inner, PostgresStore, sql};
use crate::job::JobId;
use crate::job::TenantId;
use crate::store::columns::{FromRow, ReadColumns};
use crate::store::{LeaseRef, OutputChunks, OutputPosition, OutputStreamStore, StoreError};

columns! {
    /// Appended chunks, in the order of the parameters of `append_output.sql`.
    struct AppendedChunks => AppendedColumns {
        tenant: TenantId,
        id: JobId,
        epoch: i64,
        first: i64,
        chunks: String,
    }
}

columns! {
    /// A position, in the order of the parameters of `output.sql` and `trim_output.sql`.
    struct Position => PositionColumns {
        tenant: TenantId,
        id: JobId,
        epoch: i64,
        first: i64,
    }
}

impl FromRow for OutputChunks {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let (lease, first): (LeaseRef, u64) = columns.get()?;
        let chunks: Vec<String> = columns.opt_json()?.unwrap_or_default();
        Ok(Self { lease, first, chunks: chunks.into_iter().map(Arc::from).collect() })
    }
}

fn position_columns(positions: &[OutputPosition]) -> PositionColumns {
    let mut columns = PositionColumns::default();
    for OutputPosition { lease, chunk } in positions {
        columns.push(Position {
            tenant: lease.tenant.clone(),
            id: lease.job,
            epoch: int(lease.epoch),
            first: int(*chunk),
        });
    }
    columns
}

impl Inner {
    async fn append_output(&self, appended: &[OutputChunks]) -> Result<(), PgError> {
        let mut columns = AppendedColumns::default();
        for OutputChunks { lease, first, chunks } in appended {
            let chunks: Vec<&str> = chunks.iter().map(|chunk| &**chunk).collect();
            columns.push(AppendedChunks {
                tenant: lease.tenant.clone(),
                id: lease.job,
                epoch: int(lease.epoch),
                first: int(*first),
                chunks: to_json(&chunks)?,
            });
        }
        let appended_rows = self.run(sql::APPEND_OUTPUT, &columns.params()).await?;
        if appended_rows < appended.len()
            && self.split_leases(appended.iter().map(|chunks| &chunks.lease)).await?
        {
            self.run(sql::APPEND_OUTPUT, &columns.params()).await?;
        }
        self.notify.output_appended();
        Ok(())
    }

    async fn read_output(
        &self,
        positions: &[OutputPosition],
        parts: usize,
    ) -> Result<Vec<OutputChunks>, PgError> {
        let (columns, parts) = (position_columns(positions), limit(parts));
        let mut params = columns.params();
        params.push(&parts);
        self.all(sql::OUTPUT, &params).await
    }

    async fn trim_output(&self, positions: &[OutputPosition]) -> Result<(), PgError> {
        self.run(sql::TRIM_OUTPUT, &position_columns(positions).params()).await?;
        Ok(())
    }

    async fn prune_output(&self, attempts: usize) -> Result<usize, PgError> {
        let ended: Option<u32> = self.first(sql::PRUNE_OUTPUT, &[&limit(attempts)]).await?;
        Ok(ended.unwrap_or_default() as usize)
    }
}

#[async_trait]
impl OutputStreamStore for PostgresStore {
    fn has_peers(&self) -> bool {
        self.inner.notify.has_peers()
    }

    fn output_notifications(&self) -> watch::Receiver<u64> {
        self.inner.notify.subscribe_to_output()
    }

    async fn append_output(&self, appended: &[OutputChunks]) -> Result<(), StoreError> {
        retrying!(self.inner.append_output(appended))
    }

    async fn read_output(
        &self,
        positions: &[OutputPosition],
        limit: usize,
    ) -> Result<Vec<OutputChunks>, StoreError> {
        retrying!(self.inner.read_output(positions, limit))
    }

    async fn trim_output(&self, positions: &[OutputPosition]) -> Result<(), StoreError> {
        retrying!(self.inner.trim_output(positions))
    }

    async fn prune_output(&self, limit: usize) -> Result<usize, StoreError> {
        retrying!(self.inner.prune_output(limit))
    }
}
