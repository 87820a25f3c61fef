//! Settlement: records how attempts ended.

use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::maintenance::blobs;
use crate::store::sqlite::queries::find;
use crate::store::{BlobRole, SettleResult, Settlement, StoreError};

/// Ends an attempt. A repeated settlement returns the stored result.
pub(crate) fn settle(tx: &Tx<'_>, settlement: &Settlement) -> Result<SettleResult, SqliteError> {
    let lease = &settlement.lease;
    let Some(mut row) = find::leased(tx, lease)? else {
        return match find::row(tx, &lease.tenant, lease.job) {
            Err(SqliteError::Rejected(_)) => Err(StoreError::LeaseLost.into()),
            found => Ok(found?.stored.settled_before(settlement)?),
        };
    };
    if let Some(result) = row.stored.settle(settlement, tx.now)? {
        for artifact in &settlement.artifacts {
            blobs::insert(tx, &lease.tenant, lease.job, BlobRole::Artifact, artifact)?;
        }
        row.result = Some(result);
    }
    row.release_limits(tx)?;
    row.save_transition(tx)?;
    Ok(row.stored.settled())
}
