//! The endpoints that kinds ask: whether somebody is there.

use std::time::Duration;

use longhaul_server::config::{Config, Run};
use tokio::net::TcpStream;

use super::finding::Finding;

const CHECK: &str = "target";
/// For a connection: a target that takes longer is slow, or not there.
const PATIENCE: Duration = Duration::from_secs(3);

/// One finding for each endpoint. One that is not there is no reason not to start: it may be later.
pub(super) async fn all(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (kind, declared) in &config.kinds {
        let Run::Http(http) = &declared.run else { continue };
        let Some(target) = &http.target else { continue };
        let Some(address) = target.address() else { continue };
        let origin = target.origin();
        findings.push(match reach(address).await {
            Ok(()) => Finding::good(CHECK, format!("{origin} of the kind {kind} can be reached")),
            Err(error) => Finding::doubtful(
                CHECK,
                format!("{origin} of the kind {kind} cannot be reached: {error}"),
                "a server would start; jobs would be tried again until it is there",
            ),
        });
    }
    findings
}

async fn reach((host, port): (&str, u16)) -> Result<(), String> {
    // As URLs write an IPv6 address.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::time::timeout(PATIENCE, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn target_is_there_or_it_is_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(reach(("127.0.0.1", port)).await, Ok(()));
        drop(listener);
        assert!(reach(("127.0.0.1", port)).await.is_err());
    }
}
