//! Test harness: servers in process, the real binary, clusters, and the servers they talk to.
//!
//! - [`TestServer`] runs the router in process, on any [`Backend`], with options for its parts.
//! - [`TestProcess`] is the real binary, started in an [`Installation`].
//! - [`Cluster`] runs several replicas of the real binary on one Postgres database.
//! - [`FakeHttpServer`] and [`FakeChatServer`] listen on real sockets and follow a script.

mod backend;
mod builder;
#[cfg(target_os = "linux")]
mod cluster;
mod fake_chat_server;
mod fake_http_server;
mod kinds;
pub(crate) mod raw_http;
mod request;
mod test_database;
mod test_process;
mod test_server;
mod third_party;

pub(crate) use backend::{Backend, on_both_backends};
pub(crate) use builder::TestServerBuilder;
#[cfg(target_os = "linux")]
pub(crate) use cluster::{Cluster, SHORT_LEASES};
pub(crate) use fake_chat_server::{Behaviour, FakeChatServer, MODEL, reply_to};
pub(crate) use fake_http_server::{BROKEN, FakeHttpServer, OK, ReceivedRequest, Reply};
pub(crate) use request::{ResponseStream, TestRequest, TestResponse};
pub(crate) use test_database::TestDatabase;
pub(crate) use test_process::{
    CommandOutput, ExitedProcess, Installation, LONGHAUL, TestProcess, output_of,
};
pub(crate) use test_server::{TestServer, redacted, status_url};
pub(crate) use third_party::ThirdParty;

/// Ends a test that cannot run on this machine. It fails, so that a fault that is never injected does not pass for a
/// fault that does no harm, unless `TEST_MAY_SKIP` is set.
pub(crate) fn skip(reason: &str) {
    assert!(
        std::env::var_os("TEST_MAY_SKIP").is_some(),
        "this test cannot run here: {reason}; TEST_MAY_SKIP=1 skips such tests"
    );
    eprintln!("skipped: {reason}");
}
