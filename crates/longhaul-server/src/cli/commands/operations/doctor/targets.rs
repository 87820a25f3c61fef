//! Checks of the endpoints and model servers of kinds.

use std::time::Duration;

use longhaul_kinds::http::TargetUrl;
use longhaul_server::config::{Config, KindRunner};
use tokio::net::TcpStream;

use super::finding::Finding;

const CHECK: &str = "target";
/// Connection timeout.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Unreachable targets are doubtful only, because they may be available later.
pub(super) async fn all(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (kind, declared) in &config.kinds {
        let KindRunner::Http(http) = &declared.runner else { continue };
        if let Some(target) = &http.target {
            findings.extend(of(target, &format!("of kind {kind}")).await);
        }
    }
    for chat in config.chat.iter().flat_map(|chat| &chat.targets) {
        if let Ok(target) = TargetUrl::parse(&chat.url) {
            findings.extend(of(&target, &format!("for chat ({})", chat.name)).await);
        }
    }
    findings
}

async fn of(target: &TargetUrl, whose: &str) -> Option<Finding> {
    let origin = target.origin();
    Some(match reach(target.address()?).await {
        Ok(()) => Finding::good(CHECK, format!("{origin} {whose} is reachable")),
        Err(error) => Finding::doubtful(
            CHECK,
            format!("{origin} {whose} is unreachable: {error}"),
            "a server can start; jobs are retried until it is available",
        ),
    })
}

async fn reach((host, port): (&str, u16)) -> Result<(), String> {
    // IPv6 addresses have brackets in URLs.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::time::timeout(TIMEOUT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {TIMEOUT:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn target_is_reachable_while_it_listens() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(reach(("127.0.0.1", port)).await, Ok(()));
        drop(listener);
        assert!(reach(("127.0.0.1", port)).await.is_err());
    }
}
