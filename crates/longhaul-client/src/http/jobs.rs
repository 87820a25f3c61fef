//! Reading and controlling jobs.

use std::time::Duration;

use reqwest::{Method, Url};
use serde::de::DeserializeOwned;

use super::call::{Call, Repeat, append_query};
use super::events::Events;
use super::submit::whole_seconds;
use super::{Client, ClientError, Result};
use crate::wire::{
    Attempt, AttemptList, BulkRequest, BulkResult, ForkRequest, Instant, Job, JobFilter, JobList,
    RawJson, Receipt, Step, StepList,
};

/// Options of [`Client::list`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Filter for jobs.
    pub filter: JobFilter,
    /// Maximum number of jobs. Defaults to the server's page size.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl Client {
    /// Returns a job. With `wait`, the server responds when the job changes or the time has passed,
    /// rounded up to whole seconds.
    pub async fn job(&self, id: &str, wait: Option<Duration>) -> Result<Job> {
        let mut call = Call::get(self.job_url(id, None)?);
        if let Some(wait) = wait {
            let seconds = whole_seconds(wait);
            call.url.query_pairs_mut().append_pair("wait", &seconds.to_string());
            call.hold = Duration::from_secs(seconds);
        }
        self.json(call).await
    }

    /// Lists matching jobs, newest first. A page may be shorter than the limit, or empty, although there is a next one.
    pub async fn list(&self, request: &ListRequest) -> Result<JobList> {
        self.json(Call::get(self.list_url(request)?)).await
    }

    /// Lists up to `request.limit` matching jobs, newest first, from as many pages as that takes. Without a limit, all of
    /// them.
    pub async fn list_all(&self, request: &ListRequest) -> Result<JobList> {
        let mut request = request.clone();
        let mut all = JobList { jobs: Vec::new(), next_cursor: None };
        loop {
            let page = self.list(&request).await?;
            let found = u32::try_from(page.jobs.len()).unwrap_or(u32::MAX);
            request.limit = request.limit.map(|limit| limit.saturating_sub(found));
            all.jobs.extend(page.jobs);
            all.next_cursor.clone_from(&page.next_cursor);
            request.cursor = page.next_cursor;
            if request.cursor.is_none() || request.limit == Some(0) {
                return Ok(all);
            }
        }
    }

    /// Lists the finished steps of a job, in order.
    pub async fn steps(&self, id: &str) -> Result<Vec<Step>> {
        self.part::<StepList>(id, "steps").await.map(|list| list.steps)
    }

    /// Lists the attempts of a job, oldest first.
    pub async fn attempts(&self, id: &str) -> Result<Vec<Attempt>> {
        self.part::<AttemptList>(id, "attempts").await.map(|list| list.attempts)
    }

    /// Returns the input of a job.
    pub async fn input(&self, id: &str) -> Result<RawJson> {
        self.part(id, "input").await
    }

    /// Returns the result of a job; rejected before it completed.
    pub async fn result(&self, id: &str) -> Result<RawJson> {
        self.part(id, "result").await
    }

    /// Returns the deletion receipt of a job, also of a deleted one while its id is stored.
    pub async fn receipt(&self, id: &str) -> Result<Receipt> {
        self.part(id, "receipt").await
    }

    /// Returns the transitions of a job from its current state to its end, across lost connections.
    pub fn events(&self, id: &str) -> Events {
        Events::new(self.clone(), id)
    }

    /// Cancels a job; the worker of a running one is requested to stop. Idempotent.
    pub async fn cancel(&self, id: &str) -> Result<Job> {
        self.json(Call::new(Method::POST, self.job_url(id, Some("cancel"))?, Repeat::Safe)).await
    }

    /// Queues a failed or cancelled job again, keeping its finished steps.
    pub async fn resume(&self, id: &str) -> Result<Job> {
        self.json(Call::new(Method::POST, self.job_url(id, Some("resume"))?, Repeat::Never)).await
    }

    /// Creates a job from an existing one that continues from `from_step`, or after all finished steps.
    pub async fn fork(&self, id: &str, from_step: Option<&str>) -> Result<Job> {
        let body = ForkRequest { from_step: from_step.map(str::to_owned) };
        let url = self.job_url(id, Some("fork"))?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(&body)?).await
    }

    /// Deletes a finished job and everything stored for it.
    pub async fn purge(&self, id: &str) -> Result<()> {
        self.delete(self.job_url(id, None)?).await
    }

    /// Cancels all matching jobs and returns their number.
    pub async fn cancel_all(&self, filter: &JobFilter) -> Result<u64> {
        self.bulk("cancel", filter).await
    }

    /// Resumes all matching jobs and returns their number.
    pub async fn resume_all(&self, filter: &JobFilter) -> Result<u64> {
        self.bulk("resume", filter).await
    }

    /// Purges all matching jobs and returns their number.
    pub async fn purge_all(&self, filter: &JobFilter) -> Result<u64> {
        self.bulk("purge", filter).await
    }

    async fn bulk(&self, change: &str, filter: &JobFilter) -> Result<u64> {
        let body = BulkRequest { filter: filter.clone() };
        // Not repeated, because a second call would not count the jobs of the first one.
        self.post(&["v1", "jobs", change], &body).await.map(|result: BulkResult| result.count)
    }

    async fn part<T: DeserializeOwned>(&self, id: &str, part: &str) -> Result<T> {
        self.json(Call::get(self.job_url(id, Some(part))?)).await
    }

    pub(super) fn job_url(&self, id: &str, part: Option<&str>) -> Result<Url> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let what = format!("{id:?} is not a job's id: 26 letters and digits are");
            return Err(ClientError::Invalid(what));
        }
        match part {
            Some(part) => self.url(&["v1", "jobs", id, part]),
            None => self.url(&["v1", "jobs", id]),
        }
    }

    fn list_url(&self, request: &ListRequest) -> Result<Url> {
        // Destructured, so that the compiler reports a new field.
        let ListRequest { filter, limit, cursor } = request;
        let JobFilter { status, kind, queue, labels, created_after } = filter;
        let statuses = status.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(",");
        let limit = limit.map(|limit| limit.to_string());
        let pairs = [
            ("status", Some(statuses.as_str()).filter(|statuses| !statuses.is_empty())),
            ("kind", kind.as_deref()),
            ("queue", queue.as_deref()),
            ("createdAfter", created_after.as_ref().map(Instant::as_str)),
            ("limit", limit.as_deref()),
            ("cursor", cursor.as_deref()),
        ];
        let mut url = self.url(&["v1", "jobs"])?;
        append_query(&mut url, &pairs);
        for (name, value) in labels {
            append_query(&mut url, &[(&format!("label.{name}"), Some(value))]);
        }
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing::{Server, json};
    use crate::wire::Status;

    fn client() -> Client {
        Client::new("http://host:1/behind/", None).unwrap()
    }

    #[test]
    fn list_filters_become_a_query() {
        let filter = JobFilter {
            status: vec![Status::Failed, Status::Cancelled],
            labels: [("team".to_owned(), "a&b".to_owned())].into(),
            ..JobFilter::default()
        };
        let request = ListRequest { filter, limit: Some(5), cursor: None };
        let url = client().list_url(&request).unwrap();
        assert_eq!(
            url.as_str(),
            "http://host:1/behind/v1/jobs?status=failed%2Ccancelled&limit=5&label.team=a%26b"
        );
    }

    #[tokio::test]
    async fn receipt_is_parsed() {
        let text = r#"{"jobId":"01KA","jobGone":true,"at":"2026-11-15T08:00:00.000Z","unreadable":true,"deleted":true,"stored":[]}"#;
        let server = Server::start(vec![json("200 OK", text)]).await;
        let receipt = server.client().receipt("01KA").await.unwrap();
        assert_eq!(serde_json::to_string(&receipt).unwrap(), text);
        assert!(server.requests()[0].starts_with("GET /v1/jobs/01KA/receipt "));
    }

    #[test]
    fn job_id_cannot_address_another_route() {
        for id in ["", "..", "../queues", "a/b", "a?b", "ä"] {
            assert!(matches!(client().job_url(id, None), Err(ClientError::Invalid(_))), "{id}");
        }
    }
}
