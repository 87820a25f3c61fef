//! Secret parts of a request, encrypted for one job and decrypted when it is sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::blob::{KeyError, Keyring};
use longhaul::{Job, JobError, JobId, TenantId};

use super::headers::HeaderField;
use crate::job_error;

const HEADERS: &str = "headers";
const BODY: &str = "body";

/// Encrypts headers for a job. No other job can use them, even with a copy of the input.
pub fn seal_headers(
    keyring: &Keyring,
    fields: &[HeaderField],
    tenant: &TenantId,
    id: JobId,
) -> Result<String, serde_json::Error> {
    let text = zeroize::Zeroizing::new(serde_json::to_string(fields)?);
    Ok(keyring.seal_text(&text, &context(HEADERS, tenant, id)))
}

pub fn seal_body(keyring: &Keyring, body: &[u8], tenant: &TenantId, id: JobId) -> String {
    let text = zeroize::Zeroizing::new(STANDARD.encode(body));
    keyring.seal_text(&text, &context(BODY, tenant, id))
}

/// Decrypts headers for the job, or for a job that was forked from it.
pub(super) fn open_headers(
    keyring: Option<&Keyring>,
    sealed: &str,
    job: &Job,
) -> Result<Vec<HeaderField>, JobError> {
    let text = open(keyring, HEADERS, sealed, job)?;
    serde_json::from_str(&text).map_err(|_| unreadable(HEADERS, &KeyError::Damaged))
}

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
    let message = format!("cannot decrypt the sealed {what}: {error}");
    // A missing key may be restored.
    let is_temporary = matches!(error, KeyError::Unknown { .. });
    job_error(is_temporary, message, "request-sealed")
}

fn context(what: &str, tenant: &TenantId, id: JobId) -> Vec<u8> {
    format!("http {what} {} {id}", tenant.as_str()).into_bytes()
}
