//! Checks of the server keys, and of the keys of the `OpenID` Connect issuer.

use longhaul_server::auth::check_issuer;
use longhaul_server::config::Config;
use longhaul_server::server::{StartError, check_keys};

use super::finding::Finding;

/// Compares the server keys with stored data.
pub(super) async fn server_keys(config: &Config) -> Finding {
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

/// Returns `None` without an issuer.
pub(super) async fn issuer(config: &Config) -> Option<Finding> {
    const CHECK: &str = "issuer";
    let settings = config.oidc.as_ref()?;
    Some(match check_issuer(settings).await {
        Ok(count) => Finding::good(CHECK, format!("{} has {count} keys", settings.issuer)),
        Err(error) => Finding::doubtful(
            CHECK,
            format!("cannot fetch the keys of {}: {error}", settings.issuer),
            "a server can start, but requests with tokens get 503 until the keys are available",
        ),
    })
}
