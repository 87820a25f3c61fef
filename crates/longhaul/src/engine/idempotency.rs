//! Idempotent replay: finding the job of an earlier submission.

use super::submit::no_payload;
use super::{Engine, JobHandle, SubmitError};
use crate::job::{Fingerprint, Json, Name};
use crate::store::{BlobRole, StoreError};

impl Engine {
    /// Returns an error if the kind does not exist or does not accept payloads, before one is
    /// uploaded.
    pub async fn check_payload_kind(&self, kind: &str) -> Result<(), SubmitError> {
        let name = Name::new(kind)?;
        if self.kind(&name).await?.settings().accepts_payload {
            Ok(())
        } else {
            Err(no_payload(&name))
        }
    }

    /// Finds the job with this idempotency key. The given parts of the repeated submission (kind,
    /// input, digest of the payload) must equal those of the first; otherwise returns
    /// [`StoreError::KeyReused`].
    pub async fn find_by_key(
        &self,
        key: &str,
        kind: Option<&str>,
        input: Option<&Json>,
        digest: Option<&[u8; 32]>,
    ) -> Result<Option<JobHandle>, SubmitError> {
        let store = &self.shared.store;
        let record = match store.job_by_key(&self.tenant, key).await {
            Ok(record) => record,
            Err(StoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let job = &record.job;
        let mut same = kind.is_none_or(|kind| kind == job.kind.as_str());
        if let Some(input) = input {
            let stored = store.input(&self.tenant, job.id).await?;
            // The fingerprint function of a remote kind is not known here.
            let fingerprint = |input| match self.shared.kinds.get(&job.kind) {
                Some(kind) => kind.fingerprint(&job.kind, input, None),
                None => Fingerprint::of(&job.kind, input, None),
            };
            same &= fingerprint(input)? == fingerprint(&stored)?;
        }
        if let Some(digest) = digest {
            let blobs = store.blobs(&self.tenant, job.id).await?;
            let payload = blobs.iter().find(|blob| blob.role == BlobRole::Payload);
            same &= payload.is_some_and(|payload| payload.digest.as_ref() == Some(digest));
        }
        if !same {
            return Err(StoreError::KeyReused { existing: job.id }.into());
        }
        Ok(Some(JobHandle::new(self.clone(), record, false)))
    }
}
