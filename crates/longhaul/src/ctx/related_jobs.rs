//! Reads of jobs that are related to the running one.

use std::collections::BTreeMap;

use super::Ctx;
use crate::job::{Job, JobId, Record};
use crate::store::{Filter, PageRequest, StoreError};

impl Ctx {
    /// Returns the job that created this one, with its result. A webhook delivery is created by the
    /// job whose event it delivers.
    pub async fn parent(&self) -> Result<Record, StoreError> {
        let id = self.job().parent_id.ok_or(StoreError::NotFound)?;
        self.shared().store.job(&self.job().tenant.owner(), id).await
    }

    /// Returns up to `limit` of the jobs with the same parent and all of these labels that are older than `before`, newest
    /// first. Without a parent there are none.
    pub async fn siblings(
        &self,
        labels: BTreeMap<String, String>,
        limit: usize,
        before: JobId,
    ) -> Result<Vec<Job>, StoreError> {
        let Some(parent) = self.job().parent_id else { return Ok(Vec::new()) };
        let filter = Filter { parent: Some(parent), labels, ..Filter::default() };
        let (mut siblings, mut before) = (Vec::new(), Some(before));
        while before.is_some() && siblings.len() < limit {
            let page = PageRequest::new(limit - siblings.len(), before);
            let found = self.shared().store.jobs(&self.job().tenant, &filter, &page).await?;
            siblings.extend(found.jobs);
            before = found.next;
        }
        Ok(siblings)
    }
}
