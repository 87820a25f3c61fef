//! HTTP clients that do what they are told and nothing more.

use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, redirect};

use crate::egress::SendError;

/// For a connection, TLS included: shared by the addresses that a name has.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer's fields in HTTP/2; HTTP/1 is limited to a hundred fields by itself.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// One that follows no redirect, asks no proxy, repeats nothing and unpacks nothing.
pub fn bare() -> ClientBuilder {
    Client::builder()
        // A proxy would resolve and dial for us, and judge nothing.
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        // When to try again is for whoever sends.
        .retry(reqwest::retry::never())
        // A small answer must not become a large one here.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
}

/// Builds it, with these root certificates or the machine's.
pub fn build(
    builder: impl Fn() -> ClientBuilder,
    roots: Option<&[Certificate]>,
) -> Result<Client, SendError> {
    // Whoever embeds us may have installed a provider already, and theirs is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = match roots {
        Some(roots) => builder().tls_certs_only(roots.to_vec()).build(),
        None => builder().build().or_else(|error| {
            // Bare containers have none, and plain HTTP needs none.
            tracing::warn!(%error, "no root certificates: requests to https:// will fail");
            builder().tls_certs_only([]).build()
        }),
    };
    client.map_err(|error| SendError::Tls(error.to_string()))
}
