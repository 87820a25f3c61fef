//! What the database must not know of a request: sealed for one job, and opened when it is sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::blob::{KeyError, Keyring};
use longhaul::{Job, JobError, JobId, TenantId};

use super::headers::HeaderField;

const HEADERS: &str = "headers";
const BODY: &str = "body";

/// Seals fields for a job. Nobody else's job can be sent with them, even by who may read its input.
pub fn seal_headers(
    keyring: &Keyring,
    fields: &[HeaderField],
    tenant: &TenantId,
    id: JobId,
) -> Result<String, serde_json::Error> {
    let text = zeroize::Zeroizing::new(serde_json::to_string(fields)?);
    Ok(keyring.seal_text(&text, &context(HEADERS, tenant, id)))
}

/// Seals a body for a job, in the same way.
pub fn seal_body(keyring: &Keyring, body: &[u8], tenant: &TenantId, id: JobId) -> String {
    let text = zeroize::Zeroizing::new(STANDARD.encode(body));
    keyring.seal_text(&text, &context(BODY, tenant, id))
}

/// Opens fields for the job, or for one that was forked from it.
pub(super) fn open_headers(
    keyring: Option<&Keyring>,
    sealed: &str,
    job: &Job,
) -> Result<Vec<HeaderField>, JobError> {
    let text = open(keyring, HEADERS, sealed, job)?;
    serde_json::from_str(&text).map_err(|_| unreadable(HEADERS, &KeyError::Damaged))
}

/// Opens a body, in the same way.
pub(super) fn open_body(
    keyring: Option<&Keyring>,
    sealed: &str,
    job: &Job,
) -> Result<Vec<u8>, JobError> {
    let text = open(keyring, BODY, sealed, job)?;
    STANDARD.decode(text.as_bytes()).map_err(|_| unreadable(BODY, &KeyError::Damaged))
}

fn open(
    keyring: Option<&Keyring>,
    what: &str,
    sealed: &str,
    job: &Job,
) -> Result<zeroize::Zeroizing<String>, JobError> {
    let keyring = keyring.ok_or_else(|| unreadable(what, &KeyError::Damaged))?;
    let ids = std::iter::once(job.id).chain(job.forked_from);
    let mut opened = Err(KeyError::Damaged);
    for id in ids {
        opened = opened.or_else(|_| keyring.open_text(sealed, &context(what, &job.tenant, id)));
    }
    opened.map_err(|error| unreadable(what, &error))
}

fn unreadable(what: &str, error: &KeyError) -> JobError {
    let message = format!("the sealed {what} cannot be opened: {error}");
    // The server's key may be put back.
    let may_pass = matches!(error, KeyError::Unknown { .. });
    let error = if may_pass { JobError::retryable } else { JobError::fatal };
    error(message).with_code("request-sealed")
}

fn context(what: &str, tenant: &TenantId, id: JobId) -> Vec<u8> {
    format!("http {what} {} {id}", tenant.as_str()).into_bytes()
}
