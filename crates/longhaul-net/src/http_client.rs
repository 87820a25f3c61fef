//! HTTP client without redirects, proxies, retries or decompression.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, redirect};

use crate::egress::SendError;

/// For a connection including TLS, over all addresses of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Response headers in HTTP/2. HTTP/1 is limited to a hundred headers by the client itself.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// Returns a builder for a client without redirects, proxies, retries and decompression.
pub fn bare() -> ClientBuilder {
    Client::builder()
        // A proxy would resolve names itself, past the egress policy.
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        // The caller has its own retry policy.
        .retry(reqwest::retry::never())
        // A small response must not expand to a large one.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
}

/// Client that is built on first use, because reading the system's certificates takes time and memory.
#[derive(Debug, Default)]
pub struct LazyClient(OnceLock<Client>);

impl LazyClient {
    /// Returns the client, with these root certificates or the system's.
    pub fn get(
        &self,
        builder: impl Fn() -> ClientBuilder,
        roots: Option<&[Certificate]>,
    ) -> Result<&Client, SendError> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let client = build(builder, roots)?;
        Ok(self.0.get_or_init(|| client))
    }
}

fn build(
    builder: impl Fn() -> ClientBuilder,
    roots: Option<&[Certificate]>,
) -> Result<Client, SendError> {
    // Fails if the embedding program installed a provider already, which is used then.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = match roots {
        Some(roots) => builder().tls_certs_only(roots.to_vec()).build(),
        None => builder().build().or_else(|error| {
            // Bare containers have no certificates, and plain HTTP needs none.
            tracing::warn!(%error, "no root certificates: requests to https:// will fail");
            builder().tls_certs_only([]).build()
        }),
    };
    client.map_err(|error| SendError::Tls(error.to_string()))
}
