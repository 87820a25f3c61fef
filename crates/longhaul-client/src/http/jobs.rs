//! Reading jobs and changing them.

use std::time::Duration;

use reqwest::{Method, Url};
use serde::de::DeserializeOwned;

use super::call::{Call, Repeat};
use super::events::Events;
use super::submit::whole_seconds;
use super::{Client, ClientError};
use crate::wire::{
    Attempt, AttemptList, BulkRequest, BulkResult, ForkRequest, Job, JobFilter, JobList, RawJson,
    Receipt, Step, StepList,
};

/// Which part of which list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Which jobs.
    pub filter: JobFilter,
    /// At most so many; the server's own number unless given.
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// A job as it stands. With `wait`, the answer is held until the job changes or so many whole
    /// seconds have passed.
    pub async fn job(&self, id: &str, wait: Option<Duration>) -> Result<Job, ClientError> {
        let mut call = Call::get(self.job_url(id, None)?);
        if let Some(wait) = wait {
            let seconds = whole_seconds(wait);
            call.url.query_pairs_mut().append_pair("wait", &seconds.to_string());
            call.hold = Duration::from_secs(seconds);
        }
        self.json(call).await
    }

    /// Jobs that match, newest first.
    pub async fn list(&self, request: &ListRequest) -> Result<JobList, ClientError> {
        let mut url = self.url(&["v1", "jobs"])?;
        append_query(&mut url, request);
        self.json(Call::get(url)).await
    }

    /// A job's finished steps, in their order.
    pub async fn steps(&self, id: &str) -> Result<Vec<Step>, ClientError> {
        self.part::<StepList>(id, "steps").await.map(|list| list.steps)
    }

    /// A job's attempts, oldest first.
    pub async fn attempts(&self, id: &str) -> Result<Vec<Attempt>, ClientError> {
        self.part::<AttemptList>(id, "attempts").await.map(|list| list.attempts)
    }

    /// What went in.
    pub async fn input(&self, id: &str) -> Result<RawJson, ClientError> {
        self.part(id, "input").await
    }

    /// What came out; refused while there is nothing.
    pub async fn result(&self, id: &str) -> Result<RawJson, ClientError> {
        self.part(id, "result").await
    }

    /// What was stored for a job besides its row, and when it was gone. Also of a job that was
    /// deleted, for as long as its id is remembered.
    pub async fn receipt(&self, id: &str) -> Result<Receipt, ClientError> {
        self.part(id, "receipt").await
    }

    /// Every transition of a job from its current state to its end, across broken connections.
    pub fn events(&self, id: &str) -> Events {
        Events::new(self.clone(), id)
    }

    /// Cancels a job, or asks the worker of a running one to stop. Asking twice changes nothing.
    pub async fn cancel(&self, id: &str) -> Result<Job, ClientError> {
        self.json(Call::new(Method::POST, self.job_url(id, Some("cancel"))?, Repeat::Safe)).await
    }

    /// Puts a failed or cancelled job back in line, with its finished steps kept.
    pub async fn resume(&self, id: &str) -> Result<Job, ClientError> {
        self.json(Call::new(Method::POST, self.job_url(id, Some("resume"))?, Repeat::Never)).await
    }

    /// Makes a new job from an old one that goes on from `from_step`, or after all finished steps.
    pub async fn fork(&self, id: &str, from_step: Option<&str>) -> Result<Job, ClientError> {
        let body = ForkRequest { from_step: from_step.map(str::to_owned) };
        let url = self.job_url(id, Some("fork"))?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(&body)?).await
    }

    /// Deletes a finished job with all that belongs to it.
    pub async fn purge(&self, id: &str) -> Result<(), ClientError> {
        self.done(Call::new(Method::DELETE, self.job_url(id, None)?, Repeat::Never)).await
    }

    /// Cancels all jobs that match; returns how many.
    pub async fn cancel_all(&self, filter: &JobFilter) -> Result<u64, ClientError> {
        self.bulk("cancel", filter).await
    }

    /// Resumes all jobs that match; returns how many.
    pub async fn resume_all(&self, filter: &JobFilter) -> Result<u64, ClientError> {
        self.bulk("resume", filter).await
    }

    /// Purges all jobs that match; returns how many.
    pub async fn purge_all(&self, filter: &JobFilter) -> Result<u64, ClientError> {
        self.bulk("purge", filter).await
    }

    async fn bulk(&self, change: &str, filter: &JobFilter) -> Result<u64, ClientError> {
        let body = BulkRequest { filter: filter.clone() };
        let url = self.url(&["v1", "jobs", change])?;
        // A repeated call would count only what the first one left.
        let call = Call::new(Method::POST, url, Repeat::Never).body(&body)?;
        self.json::<BulkResult>(call).await.map(|result| result.count)
    }

    async fn part<T: DeserializeOwned>(&self, id: &str, part: &str) -> Result<T, ClientError> {
        self.json(Call::get(self.job_url(id, Some(part))?)).await
    }

    pub(super) fn job_url(&self, id: &str, part: Option<&str>) -> Result<Url, ClientError> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let what = format!("{id:?} is not a job's id: 26 letters and digits are");
            return Err(ClientError::Invalid(what));
        }
        match part {
            Some(part) => self.url(&["v1", "jobs", id, part]),
            None => self.url(&["v1", "jobs", id]),
        }
    }
}

fn append_query(url: &mut Url, request: &ListRequest) {
    // Named one by one, so that a new filter cannot be forgotten here.
    let ListRequest { filter, limit, cursor } = request;
    let JobFilter { status, kind, queue, labels, created_after } = filter;
    let statuses = status.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(",");
    let limit = limit.map(|limit| limit.to_string());
    let pairs = [
        ("status", Some(statuses).filter(|statuses| !statuses.is_empty())),
        ("kind", kind.clone()),
        ("queue", queue.clone()),
        ("createdAfter", created_after.as_ref().map(ToString::to_string)),
        ("limit", limit),
        ("cursor", cursor.clone()),
    ];
    if pairs.iter().all(|(_, value)| value.is_none()) && labels.is_empty() {
        return;
    }
    let mut query = url.query_pairs_mut();
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, &value);
        }
    }
    for (name, value) in labels {
        query.append_pair(&format!("label.{name}"), value);
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
    fn filters_become_a_query() {
        let mut url = client().url(&["v1", "jobs"]).unwrap();
        let filter = JobFilter {
            status: vec![Status::Failed, Status::Cancelled],
            labels: [("team".to_owned(), "a&b".to_owned())].into(),
            ..JobFilter::default()
        };
        append_query(&mut url, &ListRequest { filter, limit: Some(5), cursor: None });
        assert_eq!(
            url.as_str(),
            "http://host:1/behind/v1/jobs?status=failed%2Ccancelled&limit=5&label.team=a%26b"
        );
    }

    #[tokio::test]
    async fn a_receipt_is_read() {
        let text = r#"{"jobId":"01KA","jobGone":true,"at":"2026-11-15T08:00:00.000Z","unreadable":true,"deleted":true,"stored":[]}"#;
        let server = Server::start(vec![json("200 OK", text)]).await;
        let receipt = server.client().receipt("01KA").await.unwrap();
        assert_eq!(serde_json::to_string(&receipt).unwrap(), text);
        assert!(server.requests()[0].starts_with("GET /v1/jobs/01KA/receipt "));
    }

    #[test]
    fn an_id_cannot_reach_another_route() {
        for id in ["", "..", "../queues", "a/b", "a?b", "ä"] {
            assert!(matches!(client().job_url(id, None), Err(ClientError::Invalid(_))), "{id}");
        }
    }
}
