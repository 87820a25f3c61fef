//! Delegation of the storage traits, for wrappers that change a few calls.

/// Implements [`Store`](crate::store::Store) and its supertraits for a wrapper.
///
/// Calls go to a field or to the result of a method, except those to the wrapper's own methods of the same name:
///
/// ```ignore
/// longhaul::delegate_store!(impl for LateStore, to [inner], except settle report);
/// ```
///
/// A wrapper that changes every call passes a macro instead. Each method evaluates
/// `$call!(self, method, arguments…)`, which returns a future, or a value for the methods that are not async:
///
/// ```ignore
/// macro_rules! call {
///     ($this:ident, settle, $settlements:ident) => { $this.settle_late($settlements) };
///     ($this:ident, $method:ident $(, $argument:ident)*) => { $this.late($this.inner.$method($($argument),*)) };
/// }
/// longhaul::delegate_store!(impl[] for LateStore, call);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! delegate_store {
    (impl for $wrapper:ty, to [$($inner:tt)*], except $($own:ident)*) => {
        $crate::delegate_store! { @arms ($) for $wrapper, to [$($inner)*], except [$($own)*] }
    };
    // `$dollar` writes the dollar signs of the macro that is defined here.
    (@arms ($dollar:tt) for $wrapper:ty, to $inner:tt, except [$($own:ident)*]) => {
        macro_rules! call {
            $(($dollar this:ident, $own $dollar(, $dollar argument:ident)*) => {
                $dollar this.$own($dollar($dollar argument),*)
            };)*
            ($dollar this:ident, $dollar method:ident $dollar(, $dollar argument:ident)*) => {
                $crate::delegate_store!(
                    @inner $dollar this $inner $dollar method($dollar($dollar argument),*)
                )
            };
        }
        $crate::delegate_store!(impl[] for $wrapper, call);
    };
    (@inner $this:ident [$($inner:tt)*] $method:ident($($argument:ident),*)) => {
        $this.$($inner)*.$method($($argument),*)
    };
    (impl[$($generics:tt)*] for $wrapper:ty, $call:ident) => {
        const _: () = {
            use std::sync::Arc;
            use std::time::Duration;
            use $crate::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};
            use $crate::store::*;

            $crate::delegate_store! { @methods [$($generics)*] JobStore for $wrapper, $call;
                submit(jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>>;
                job(tenant: &TenantId, id: JobId) -> Result<Record, StoreError>;
                jobs(tenant: &TenantId, filter: &Filter, page: &PageRequest)
                    -> Result<Page, StoreError>;
                job_by_key(tenant: &TenantId, key: &str) -> Result<Record, StoreError>;
                input(tenant: &TenantId, id: JobId) -> Result<Json, StoreError>;
                steps(tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError>;
                versions(jobs: &[(TenantId, JobId)]) -> Result<Vec<Option<JobVersion>>, StoreError>;
                blobs(tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError>;
                cancel(tenant: &TenantId, id: JobId) -> Result<Job, StoreError>;
                resume(tenant: &TenantId, id: JobId) -> Result<Job, StoreError>;
                fork(tenant: &TenantId, id: JobId, new_id: JobId, from_step: Option<&str>)
                    -> Result<Job, StoreError>;
                purge(tenant: &TenantId, id: JobId) -> Result<(), StoreError>;
                queues(tenant: &TenantId) -> Result<Vec<QueueState>, StoreError>;
                pause_queue(tenant: &TenantId, queue: &Name, paused: bool)
                    -> Result<(), StoreError>;
                count_pending(tenant: &TenantId, queue: Option<&Name>, up_to: u64)
                    -> Result<u64, StoreError>;
                usage(tenant: &TenantId, from: Timestamp, to: Timestamp)
                    -> Result<Vec<UsageRow>, StoreError>;
            }
            $crate::delegate_store! { @methods [$($generics)*] WorkerStore for $wrapper, $call;
                claim(want: &Claim) -> Result<ClaimResult, StoreError>;
                submit_and_claim(job: NewJob, want: &Claim)
                    -> Result<(SubmitResult, Option<Lease>), StoreError>;
                next_due_at(since: Timestamp) -> Result<Option<Timestamp>, StoreError>;
                renew(leases: Vec<LeaseRef>, duration: Duration)
                    -> Result<Vec<Renewal>, StoreError>;
                report(reports: Vec<Report>) -> Vec<Result<(), StoreError>>;
                checkpoint(checkpoint: Checkpoint) -> Result<CheckpointResult, StoreError>;
                settle(settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>>;
                record_work_dir(lease: &LeaseRef, path: &str, replica: &str)
                    -> Result<(), StoreError>;
            }
            $crate::delegate_store! { @methods [$($generics)*] MaintenanceStore for $wrapper, $call;
                rescue(limit: usize) -> Result<Vec<Job>, StoreError>;
                prune(limit: usize) -> Result<usize, StoreError>;
                expire_payloads(kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError>;
                blobs_to_delete(limit: usize) -> Result<Vec<BlobRef>, StoreError>;
                work_dirs(host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError>;
                record_deletions(deletions: Vec<Deletion>, replica: &str) -> Result<(), StoreError>;
                orphan_blobs(blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError>;
                blob_bytes(tenant: &TenantId) -> Result<u64, StoreError>;
                roll_up_usage(limit: usize) -> Result<usize, StoreError>;
                queue_totals(limit: usize) -> Result<Vec<QueueTotal>, StoreError>;
            }
            $crate::delegate_store! { @methods [$($generics)*] ReplicaStore for $wrapper, $call;
                heartbeat(heartbeat: &Heartbeat) -> Result<(), StoreError>;
                replicas() -> Result<Vec<ReplicaState>, StoreError>;
                take_over(replica: &str, run: u64) -> Result<(), StoreError>;
                deregister(replica: &str) -> Result<(), StoreError>;
            }

            impl<$($generics)*> Store for $wrapper {
                fn now(&self) -> Timestamp {
                    $call!(self, now)
                }

                fn change_notifications(&self) -> Option<ChangeNotifications> {
                    $call!(self, change_notifications)
                }

                fn output_streams(&self) -> Option<&dyn OutputStreamStore> {
                    $call!(self, output_streams)
                }

                fn outbox_notify(&self) -> Arc<Notify> {
                    $call!(self, outbox_notify)
                }
            }
        };
    };
    (@methods [$($generics:tt)*] $trait:ident for $wrapper:ty, $call:ident;
        $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[async_trait]
        impl<$($generics)*> $trait for $wrapper {
            $(async fn $method(&self $(, $argument: $type)*) -> $result {
                $call!(self, $method $(, $argument)*).await
            })*
        }
    };
}
