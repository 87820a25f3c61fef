//! Reads of jobs that are related to the running one.

use std::collections::BTreeMap;

use super::Ctx;
use crate::job::{Job, Record};
use crate::store::{Filter, PageRequest, StoreError};

impl Ctx {
    /// Returns the job that created this one, with its result. A webhook delivery is created by the
    /// job whose event it delivers.
    pub async fn parent(&self) -> Result<Record, StoreError> {
        let id = self.job().parent_id.ok_or(StoreError::NotFound)?;
        self.shared().store.job(&self.job().tenant.owner(), id).await
    }

    /// Returns one page of the jobs with the same parent and all of these labels, newest first.
    /// Without a parent there are none.
    pub async fn siblings(
        &self,
        labels: BTreeMap<String, String>,
        page: &PageRequest,
    ) -> Result<Vec<Job>, StoreError> {
        let Some(parent) = self.job().parent_id else { return Ok(Vec::new()) };
        let filter = Filter { parent: Some(parent), labels, ..Filter::default() };
        Ok(self.shared().store.jobs(&self.job().tenant, &filter, page).await?.jobs)
    }
}
