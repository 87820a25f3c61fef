//! Points between two effects, at which a test kills the process to see what is left behind.
//!
//! Without the feature `failpoints` reaching one does nothing, and no release has the feature. With it, the
//! point that `TEST_FAILPOINT` names is logged and then waited at for ever. This is the one variable that
//! the configuration does not know: it must work in any process that runs an engine, and nobody is
//! to find it in a documented file. It does not begin with `LONGHAUL_`, because a server refuses such
//! variables if it does not know them.
//!
//! Our own lines and not the crate `fail`: its `pause` blocks the thread, and with it renewals and answers
//! that have nothing to do with the point, and it does not tell anybody that the point was reached.

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
            /// All of them, in the order in which a job with a payload and an artifact reaches them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

failpoints! {
    /// The first bytes of a payload have come in.
    UploadStarted,
    /// All bytes of a payload were sent to the blob store, which shows no blob yet.
    UploadSent,
    /// The blob is there, and no job knows of it.
    UploadStored,
    /// The job is there, and its caller does not know.
    Submitted,
    /// The job has a lease, and its handler has not begun.
    Claimed,
    /// A folder is there that is not on record.
    WorkDirCreated,
    /// The folder is on record, and has nothing in clear yet.
    WorkDirRecorded,
    /// A part of the payload is in the folder in clear.
    PayloadPartlyDecrypted,
    /// All of the payload is there in clear, and nobody has worked on it.
    PayloadDecrypted,
    /// The first bytes of an artifact were sent to the blob store.
    ArtifactStarted,
    /// An artifact's blob is there, and its job does not know of it.
    ArtifactStored,
    /// The handler has returned, and nothing of it is cleared away.
    HandlerReturned,
    /// The folder is gone, and the record has it.
    WorkDirDeleted,
    /// Nothing is left in clear, and the job has not ended.
    CleanedUp,
    /// The job has ended, and nobody was told.
    Settled,
    /// The payload's key is destroyed, and its blob is there.
    BlobMarkedForDeletion,
    /// The payload's blob is gone, and the record has it.
    BlobDeleted,
    /// The job was deleted, and its artifacts' blobs are there.
    Purged,
}

/// Waits here for ever if a test wants to kill the process here.
#[cfg(feature = "failpoints")]
pub(crate) async fn reach(point: Failpoint) {
    // tidy: allow(environment) for tests only, see above
    if std::env::var("TEST_FAILPOINT").is_ok_and(|wanted| wanted == format!("{point:?}")) {
        tracing::error!("waiting at the failpoint {point:?}");
        std::future::pending::<()>().await;
    }
}

/// Does nothing: this is not a test.
#[cfg(not(feature = "failpoints"))]
#[expect(clippy::unused_async, reason = "with the feature it waits")]
pub(crate) async fn reach(_: Failpoint) {}
