//! Submission over a connection of the caller, inside the caller's transaction.

use tokio_postgres::GenericClient;
use tokio_postgres::types::{ToSql, Type};

use super::connection::columns::{millis, small};
use super::connection::error::describe;
use super::connection::params::Param;
use super::{sql, submit};
use crate::job::JobId;
use crate::store::{NewJob, Start, StoreError};

/// Error of a submission inside the caller's transaction, which has then failed.
#[derive(Debug)]
pub(crate) enum SqlSubmitError {
    /// The SQL function rejected an argument. It applies the default limits.
    Invalid(String),
    /// Any other error.
    Store(StoreError),
}

/// Submits a validated job. The job exists once the caller commits.
pub(crate) async fn submit_in_transaction(
    client: &(impl GenericClient + Sync),
    new: &NewJob,
) -> Result<JobId, SqlSubmitError> {
    let (run_at, delay) = match new.start {
        Start::Now => (None, None),
        Start::In(delay) => (None, Some(millis(delay))),
        Start::At(at) => (Some(at), None),
    };
    let labels =
        submit::labels(new).map_err(|error| SqlSubmitError::Invalid(format!("{error:?}")))?;
    let timeout = new.timeout.map(millis);
    let (completed, failed) = (millis(new.retention.completed), millis(new.retention.failed));
    let params: [&dyn Param; 13] = [
        &new.kind,
        &new.input.as_str(),
        &new.tenant,
        &new.queue,
        &new.priority,
        &run_at,
        &delay,
        &small(new.max_attempts),
        &timeout,
        &new.idempotency_key.as_deref(),
        &labels,
        &completed,
        &failed,
    ];
    let typed: Vec<(&(dyn ToSql + Sync), Type)> =
        params.iter().map(|param| (*param as &(dyn ToSql + Sync), param.kind())).collect();
    let rows = client.query_typed(sql::SUBMIT, &typed).await.map_err(|error| refusal(&error))?;
    let id = rows.first().and_then(|row| row.try_get::<_, String>(0).ok());
    id.and_then(|id| id.parse().ok()).ok_or_else(|| {
        SqlSubmitError::Store(StoreError::Broken("longhaul.submit returned no job id".to_owned()))
    })
}

/// Maps the error codes that the SQL function documents.
fn refusal(error: &tokio_postgres::Error) -> SqlSubmitError {
    let said = error.as_db_error();
    let existing = || said?.detail()?.parse().ok();
    match said.map(|said| (said.code().code(), said.message())) {
        Some(("LH400", message)) => SqlSubmitError::Invalid(message.to_owned()),
        Some(("LH409", message)) => SqlSubmitError::Store(existing().map_or_else(
            || StoreError::Unavailable(message.to_owned()),
            |existing| StoreError::KeyReused { existing },
        )),
        Some(_) | None => SqlSubmitError::Store(StoreError::Unavailable(describe(error))),
    }
}
