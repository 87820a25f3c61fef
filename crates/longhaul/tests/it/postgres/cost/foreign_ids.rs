//! Cost of calls with the id of another tenant's job: that of an unknown id, so that response times tell nothing about it.

use longhaul::job::{JobId, TenantId};
use longhaul::store::conformance::{StoreHarness, done};
use longhaul::store::{Store, StoreError};

use super::MeasuredDatabase;

/// A call of the store with the id of a job.
#[derive(Debug, Clone, Copy)]
enum Call {
    Job,
    Input,
    Steps,
    Versions,
    Blobs,
    Cancel,
    Resume,
    Fork,
    Purge,
}

impl Call {
    const ALL: [Self; 9] = [
        Self::Job,
        Self::Input,
        Self::Steps,
        Self::Versions,
        Self::Blobs,
        Self::Cancel,
        Self::Resume,
        Self::Fork,
        Self::Purge,
    ];

    /// Makes the call, which must find nothing.
    async fn send(self, store: &dyn Store, tenant: &TenantId, id: JobId, new_id: JobId) {
        let found = match self {
            Self::Job => store.job(tenant, id).await.map(drop),
            Self::Input => store.input(tenant, id).await.map(drop),
            Self::Steps => store.steps(tenant, id).await.map(drop),
            Self::Versions => {
                let versions = store.versions(&[(tenant.clone(), id)]).await.unwrap();
                assert_eq!(versions, [None]);
                return;
            }
            Self::Blobs => {
                assert!(store.blobs(tenant, id).await.unwrap().is_empty());
                return;
            }
            Self::Cancel => store.cancel(tenant, id).await.map(drop),
            Self::Resume => store.resume(tenant, id).await.map(drop),
            Self::Fork => store.fork(tenant, id, new_id, None).await.map(drop),
            Self::Purge => store.purge(tenant, id).await,
        };
        assert_eq!(found, Err(StoreError::NotFound), "{self:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_for_another_tenants_job_touches_the_same_blocks_as_for_an_unknown_one() {
    let measured = MeasuredDatabase::new().await;
    let harness = measured.open().await;
    let ended = harness.ended(done()).await.id;
    let running = harness.running().await;
    harness.step(&running, 0, "download", "1").await.unwrap();
    let pending = harness.pending().await.id;
    let [unknown, new_id] = [harness.job().id, harness.job().id];
    drop(harness);
    let other = TenantId::new("other").unwrap();
    for call in Call::ALL {
        let touched = async |id| {
            let send = async |harness: &StoreHarness| {
                call.send(&*harness.store(), &other, id, new_id).await;
            };
            let mut touched = measured.touched_by(send).await;
            // The store reads it when it begins to listen for notifications, which may be before it closes or not.
            touched.remove("incoming");
            touched
        };
        let expected = touched(unknown).await;
        for foreign in [pending, ended, running.job.id] {
            assert_eq!(touched(foreign).await, expected, "{call:?}");
        }
    }
}
