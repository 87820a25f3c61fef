//! Check of the `OpenID` Connect issuer.

use longhaul_server::auth::check_issuer;
use longhaul_server::config::Config;

use super::finding::Finding;

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
