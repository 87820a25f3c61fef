//! Operations that only the `longhaul` server needs: webhooks, metering by API key, limits that
//! change at run time, replay of idempotent requests, and output streams. Not part of the stable API.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use super::submission::Input;
use super::submit::no_payload;
use super::{
    DeliveryWorker, Engine, EngineBuilder, JobHandle, Kind, OutputReader, Submission, SubmitError,
};
use crate::job::{
    Delivery, Fingerprint, IntoName, JobId, Json, JsonError, Name, TenantId, Webhook,
};
use crate::setters::setters;
use crate::store::outbox::new_delivery;
use crate::store::{BlobRole, FlowLimit, FlowLimits, QueueCapacity, StoreError};

impl EngineBuilder {
    setters! {
        /// Delivers webhooks with this kind, whose handler gets a [`Delivery`]. `jobs` is the
        /// maximum of deliveries in flight, apart from other jobs. The kind's name must be
        /// [`DELIVERY_KIND`](crate::job::DELIVERY_KIND), which clients cannot submit.
        ///
        /// Each receiver has its own queue ([`Receiver::queue`](crate::job::Receiver::queue)), and
        /// queues are claimed round-robin. Before each claim, `windows` gets the deliveries in
        /// flight by queue and returns how many each queue may have: few for a receiver that hangs,
        /// so that it does not use up the slots. One claim takes at most a quarter of the slots.
        delivery_worker(
            kind: Kind,
            jobs: usize,
            windows: impl Fn(&HashMap<Name, usize>) -> QueueCapacity + Send + Sync + 'static
        ) {
            delivery_worker =
                Some(DeliveryWorker { kind: Arc::new(kind), jobs, windows: Arc::new(windows) })
        }
    }
}

impl<T> Submission<T> {
    setters! {
        /// Sends the job's events to a webhook, in addition to the tenant's endpoints. Deliveries
        /// stay pending until an engine with a
        /// [`delivery_worker`](crate::EngineBuilder::delivery_worker) runs.
        webhook(webhook: Webhook) { webhook = Some(webhook) }
    }
}

impl Engine {
    /// Returns a handle on this tenant's outbox. Deliveries are jobs of a separate tenant, so that
    /// they can be listed, resumed and purged like jobs.
    #[must_use]
    pub fn outbox(&self) -> Self {
        self.for_tenant(self.tenant.outbox())
    }

    /// Adds a delivery to the outbox that does not result from a job's transition, for example a
    /// test event. Returns its id.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<JobId, StoreError> {
        let id = self.shared.new_id();
        let unfit = || StoreError::Broken("a delivery that is not JSON".to_owned());
        let new = new_delivery(&self.tenant, id, delivery).ok_or_else(unfit)?;
        let result = self.shared.store.submit(vec![new]).await.pop().ok_or_else(unfit)?;
        self.shared.wake_deliveries.notify_one();
        result.map(|submitted| submitted.record.job.id)
    }

    /// Returns a handle whose submissions are metered under this API key. Submissions inside the
    /// caller's own SQL transaction are metered without a key.
    #[must_use]
    pub fn for_key(&self, id: Option<&str>) -> Self {
        Self { key: id.map(Arc::from), ..self.clone() }
    }

    /// Returns the concurrency and rate limits that apply to this process's claims.
    pub fn flow_limits(&self) -> Arc<FlowLimits> {
        self.shared.flow()
    }

    /// Limits how many jobs of a tenant run at the same time on all replicas; `None` restores the
    /// default for all tenants. Applies to claims of this process, so that every replica must set
    /// it.
    pub fn set_tenant_running_max(&self, tenant: &TenantId, running_max: Option<u32>) {
        let mut flow = self.shared.flow.write().unwrap_or_else(PoisonError::into_inner);
        let mut limits = FlowLimits::clone(&flow);
        match running_max {
            Some(jobs) => {
                let limit = FlowLimit { running_max: Some(jobs), ..limits.tenants };
                limits.by_tenant.insert(tenant.clone(), limit);
            }
            None => {
                limits.by_tenant.remove(tenant);
            }
        }
        if limits != **flow {
            *flow = Arc::new(limits);
        }
    }

    /// Returns a reader of the output stream that the job's running attempt writes, or the next one, on
    /// any replica.
    pub fn read_output(&self, id: JobId) -> OutputReader {
        self.shared.output_streams.read(&self.tenant, id)
    }

    /// Returns the number of jobs whose output is written or read in this process.
    pub fn open_outputs(&self) -> usize {
        self.shared.output_streams.len()
    }

    /// Submits a job whose input depends on its id, for example a secret that is encrypted for
    /// this job only.
    pub fn submit_with(
        &self,
        kind: impl IntoName,
        input: impl FnOnce(JobId) -> Result<Json, JsonError> + Send + 'static,
    ) -> Submission {
        Submission::new(self.clone(), kind.into_name(), Input::Deferred(Box::new(input)))
    }

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
