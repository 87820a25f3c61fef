//! Submitting inside the caller's own SQL transaction.

use std::collections::HashSet;

use tokio_postgres::GenericClient;

use super::{Submission, SubmitError};
use crate::job::JobId;
use crate::store::postgres::{SqlSubmitError, submit_in_transaction};

impl Submission {
    /// Submits inside the caller's transaction: the job is there with its commit and gone with its
    /// rollback, and so is all that the caller wrote beside it. Workers see it after the commit.
    ///
    /// The transaction must be on the Postgres database that the engine keeps its jobs in; its role
    /// needs `USAGE` on the schema `longhaul` and `EXECUTE` on `longhaul.submit`. Any other language does
    /// the same by calling that function. A known idempotency key returns the existing job's id. If
    /// this errs, the transaction has failed, and only a rollback, or a rollback to a savepoint, is
    /// left to it.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     engine: longhaul::Engine, client: &mut longhaul::store::postgres::tokio_postgres::Client,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let order = client.transaction().await?;
    /// order.execute("INSERT INTO orders (id) VALUES ($1)", &[&4711_i64]).await?;
    /// let job = engine.submit_raw("invoice", &4711).key("invoice-4711").in_transaction(&order).await?;
    /// order.commit().await?;
    /// println!("order and job {job} are there, both or neither");
    /// # Ok(()) }
    /// ```
    pub async fn in_transaction(
        self,
        transaction: &(impl GenericClient + Sync),
    ) -> Result<JobId, SubmitError> {
        let engine = self.engine.clone();
        let (job, reservation) = engine.admit(self.check().await?, &mut HashSet::new()).await?;
        let submitted = submit_in_transaction(transaction, &job).await;
        // The caller may still roll back: the reservation counts until the next count.
        if let (Err(_), Some(reservation)) = (&submitted, reservation) {
            reservation.release();
        }
        submitted.map_err(|refusal| match refusal {
            SqlSubmitError::Invalid(message) => SubmitError::Invalid(message),
            SqlSubmitError::Store(error) => SubmitError::Store(error),
        })
    }
}
