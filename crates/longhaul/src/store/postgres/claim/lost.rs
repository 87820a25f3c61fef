//! Claims whose outcome is not known: the connection was lost at their commit, and no other was available in time.
//!
//! Such a claim may have leased jobs that no worker runs. The next claim returns them to their queues, because otherwise
//! they would stand still until their leases expire, and be charged an attempt.

use crate::job::Outcome;
use crate::store::postgres::Inner;
use crate::store::postgres::connection::error::PgError;
use crate::store::{Claim, Lease, Settlement, StoreError};
use crate::sync::Mutex;

/// Replicas and ids of claims whose outcome is not known.
#[derive(Default)]
pub(crate) struct LostClaims(Mutex<Vec<(String, i64)>>);

impl LostClaims {
    pub(super) fn add(&self, replica: &str, claim_id: i64) {
        self.0.lock().push((replica.to_owned(), claim_id));
    }

    fn of(&self, replica: &str) -> Vec<i64> {
        let lost = self.0.lock();
        lost.iter().filter(|(owner, _)| owner == replica).map(|(_, claim_id)| *claim_id).collect()
    }

    fn remove(&self, claim_id: i64) {
        self.0.lock().retain(|(_, lost)| *lost != claim_id);
    }
}

/// Returns whether a failed attempt may have been committed: one without a connection was not.
pub(super) fn may_have_committed<T>(attempt: &Result<T, PgError>) -> bool {
    attempt.as_ref().is_err_and(|error| !matches!(error, PgError::NoConnection(_)))
}

impl Inner {
    /// Returns the jobs of lost claims of this replica to their queues, without charging an attempt.
    pub(super) async fn release_lost_claims(&self, want: &Claim) -> Result<(), PgError> {
        for claim_id in self.lost_claims.of(&want.replica) {
            let leases = self.claimed_before(want, claim_id).await?.leases;
            let release = |lease: &Lease| Settlement::of(lease.to_ref(), Outcome::Released);
            for released in self.settle_batch(leases.iter().map(release).collect()).await {
                match released {
                    // Another replica has rescued it.
                    Ok(_) | Err(StoreError::LeaseLost) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.lost_claims.remove(claim_id);
        }
        Ok(())
    }
}
