//! The issuer of tokens: whether it gives its keys away, as it must.

use longhaul_server::auth::check_issuer;
use longhaul_server::config::Config;

use super::finding::Finding;

/// Nothing where no tokens are taken.
pub(super) async fn issuer(config: &Config) -> Option<Finding> {
    const CHECK: &str = "issuer";
    let settings = config.oidc.as_ref()?;
    Some(match check_issuer(settings).await {
        Ok(count) => Finding::good(CHECK, format!("{} has {count} keys", settings.issuer)),
        Err(error) => Finding::doubtful(
            CHECK,
            format!("the keys of {} cannot be fetched: {error}", settings.issuer),
            "a server would start; tokens would get 503 until they can",
        ),
    })
}
