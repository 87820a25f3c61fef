//! Check of the server keys against stored data.

use longhaul_server::config::Config;
use longhaul_server::server::{StartError, check_keys};

use super::finding::Finding;

pub(super) async fn keys(config: &Config) -> Finding {
    const CHECK: &str = "server key";
    match check_keys(config).await {
        Ok(None) => Finding::good(CHECK, "matches stored data"),
        Ok(Some(newest)) => Finding::doubtful(
            CHECK,
            format!("new data is encrypted with key {newest:?}, which this server does not have"),
            "use the same keys on all servers",
        ),
        Err(error @ StartError::ForeignKeys { .. }) => {
            Finding::bad(CHECK, error.to_string(), "restore the key file from a backup")
        }
        Err(error) => Finding::bad(CHECK, error.to_string(), "a server cannot start with it"),
    }
}
