//! The endpoints and models that kinds request_readiness: whether somebody is there.

use std::time::Duration;

use longhaul_kinds::http::TargetUrl;
use longhaul_server::config::{Config, KindRunner};
use tokio::net::TcpStream;

use super::finding::Finding;

const CHECK: &str = "target";
/// For a connection: a target that takes longer is slow, or not there.
const PATIENCE: Duration = Duration::from_secs(3);

/// One finding for each endpoint. One that is not there is no reason not to start: it may be later.
pub(super) async fn all(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (kind, declared) in &config.kinds {
        let KindRunner::Http(http) = &declared.runner else { continue };
        if let Some(target) = &http.target {
            findings.extend(of(target, &format!("of the kind {kind}")).await);
        }
    }
    for chat in config.chat.iter().flat_map(|chat| &chat.targets) {
        if let Ok(target) = TargetUrl::parse(&chat.url) {
            findings.extend(of(&target, &format!("for chats ({})", chat.name)).await);
        }
    }
    findings
}

async fn of(target: &TargetUrl, whose: &str) -> Option<Finding> {
    let origin = target.origin();
    Some(match reach(target.address()?).await {
        Ok(()) => Finding::good(CHECK, format!("{origin} {whose} can be reached")),
        Err(error) => Finding::doubtful(
            CHECK,
            format!("{origin} {whose} cannot be reached: {error}"),
            "a server would start; jobs would be tried again until it is there",
        ),
    })
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
