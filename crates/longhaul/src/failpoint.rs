//! Points between two effects at which a test kills the process, to check what is left behind.
//!
//! Without the feature `failpoints`, which no release has, they do nothing. With it, the point
//! named by `TEST_FAILPOINT` is logged and then blocks for ever. The variable is not part of the
//! configuration, because it must work in any process with an engine and must not be documented. It
//! does not begin with `LONGHAUL_`, because a server rejects unknown variables of that form.
//!
//! Our own code instead of the crate `fail`, because its `pause` blocks the thread, and with it
//! unrelated renewals and responses, and does not report that the point was reached.

macro_rules! failpoints {
    ($($(#[doc = $what:literal])+ $name:ident,)+) => {
        /// A point between two effects.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(
            not(feature = "failpoints"),
            expect(unreachable_pub, reason = "only tests see it from outside")
        )]
        pub enum Failpoint {
            $($(#[doc = $what])+ $name,)+
        }

        #[cfg(feature = "failpoints")]
        impl Failpoint {
            /// All points, in the order in which a job with a payload and an artifact reaches them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

failpoints! {
    /// The first bytes of a payload have arrived.
    UploadStarted,
    /// All bytes of a payload were sent, and the blob is not visible yet.
    UploadSent,
    /// The blob is stored, and no job refers to it.
    UploadStored,
    /// The job is stored, and its caller has no response.
    Submitted,
    /// The job has a lease, and its handler has not started.
    Claimed,
    /// A working directory exists that is not recorded.
    WorkDirCreated,
    /// The working directory is recorded and still empty.
    WorkDirRecorded,
    /// A part of the payload is decrypted in the working directory.
    PayloadPartlyDecrypted,
    /// The whole payload is decrypted, and the handler has not used it.
    PayloadDecrypted,
    /// The first bytes of an artifact were sent to the blob store.
    ArtifactStarted,
    /// An artifact's blob is stored, and its job does not refer to it.
    ArtifactStored,
    /// The handler has returned, and nothing is cleaned up.
    HandlerReturned,
    /// The working directory is deleted, and the deletion is not recorded.
    WorkDirDeleted,
    /// No decrypted data is left, and the job is not settled.
    CleanedUp,
    /// The job is settled, and watchers are not notified.
    Settled,
    /// The payload's key is destroyed, and its blob exists.
    BlobMarkedForDeletion,
    /// The payload's blob is deleted, and the deletion is not recorded.
    BlobDeleted,
    /// The job is deleted, and its artifacts' blobs exist.
    Purged,
}

/// Blocks for ever if a test selected this point.
#[cfg(feature = "failpoints")]
pub(crate) async fn reach(point: Failpoint) {
    // tidy: allow(environment) for tests only, see above
    if std::env::var("TEST_FAILPOINT").is_ok_and(|wanted| wanted == format!("{point:?}")) {
        tracing::error!("waiting at the failpoint {point:?}");
        std::future::pending::<()>().await;
    }
}

#[cfg(not(feature = "failpoints"))]
#[expect(clippy::unused_async, reason = "with the feature it waits")]
pub(crate) async fn reach(_: Failpoint) {}
