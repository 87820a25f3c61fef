//! The server's keys: whether they open what is stored.

use longhaul_server::config::Config;
use longhaul_server::server::{StartError, check_keys};

use super::finding::Finding;

pub(super) async fn keys(config: &Config) -> Finding {
    const CHECK: &str = "server key";
    match check_keys(config).await {
        Ok(None) => Finding::good(CHECK, "nothing was sealed with another one"),
        Ok(Some(newest)) => Finding::doubtful(
            CHECK,
            format!("what is new is sealed with {newest:?}, which is not among the keys here"),
            "give this server the same keys as the others",
        ),
        Err(error @ StartError::ForeignKeys { .. }) => {
            Finding::bad(CHECK, error.to_string(), "look in the backups for the key file")
        }
        Err(error) => Finding::bad(CHECK, error.to_string(), "a server would not start with it"),
    }
}
