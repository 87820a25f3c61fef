//! Fields that the database must not know: sealed for one job, and opened when it is sent.

use longhaul::blob::{KeyError, Keyring};
use longhaul::{Job, JobError, JobId, TenantId};

use super::fields::Field;

/// Seals fields for a job. Nobody else's job can be sent with them, even by who may read its input.
pub fn seal_fields(
    keyring: &Keyring,
    fields: &[Field],
    tenant: &TenantId,
    id: JobId,
) -> Result<String, serde_json::Error> {
    let text = zeroize::Zeroizing::new(serde_json::to_string(fields)?);
    Ok(keyring.seal_text(&text, &context(tenant, id)))
}

/// Opens them for the job, or for one that was forked from it.
pub(super) fn open_fields(
    keyring: Option<&Keyring>,
    sealed: &str,
    job: &Job,
) -> Result<Vec<Field>, JobError> {
    let unreadable = |error: &KeyError| {
        let message = format!("the sealed headers cannot be opened: {error}");
        // The server's key may be put back.
        let may_pass = matches!(error, KeyError::Unknown { .. });
        let error = if may_pass { JobError::retryable } else { JobError::fatal };
        error(message).with_code("headers-sealed")
    };
    let keyring = keyring.ok_or_else(|| unreadable(&KeyError::Damaged))?;
    let ids = std::iter::once(job.id).chain(job.forked_from);
    let mut opened = Err(KeyError::Damaged);
    for id in ids {
        opened = opened.or_else(|_| keyring.open_text(sealed, &context(&job.tenant, id)));
    }
    let text = opened.map_err(|error| unreadable(&error))?;
    serde_json::from_str(&text).map_err(|_| unreadable(&KeyError::Damaged))
}

fn context(tenant: &TenantId, id: JobId) -> Vec<u8> {
    format!("http headers {} {id}", tenant.as_str()).into_bytes()
}
