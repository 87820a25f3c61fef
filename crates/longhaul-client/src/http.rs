//! HTTP client.

mod accounts;
mod call;
mod download;
mod error;
mod events;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod jobs;
mod payload;
mod queues;
mod retry;
mod sse;
mod submit;
#[cfg(test)]
mod testing;
mod upload;
mod usage;
mod webhooks;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Url, redirect};

pub use download::Download;
pub use error::ClientError;
use error::Result;
pub use events::{Events, Update};
pub use jobs::ListRequest;
pub use payload::Payload;
pub use submit::SubmitOptions;
pub use usage::UsageRequest;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Client of one Longhaul server. Cheap to clone; clones share their connections.
///
/// Idempotent calls are attempted three times before [`ClientError::Unreachable`];
/// [`Client::submit`] is idempotent only with a key.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    server: Url,
    /// Address without a password, for messages.
    display_address: String,
    api_key: Option<HeaderValue>,
}

impl Client {
    /// Creates a client of the server at `server`, for example `http://127.0.0.1:8080`. Sends nothing.
    pub fn new(server: &str, api_key: Option<String>) -> Result<Self> {
        let server = parse_server(server)?;
        let api_key = api_key.map(|key| bearer(&key)).transpose()?;
        // Fails if the embedding program has installed a provider, which works as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // Not followed, because a redirected POST turns into a GET.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("longhaul-client/", env!("CARGO_PKG_VERSION")));
        if server.scheme() == "http" {
            // Plain HTTP must work without root certificates, for example in minimal containers.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            ClientError::Invalid(format!("cannot set up HTTPS: {}", error::with_sources(&error)))
        })?;
        let display_address = without_password(server.as_str().trim_end_matches('/')).into_owned();
        Ok(Self { http, server, display_address, api_key })
    }

    /// Returns the server's address without its password.
    pub fn server(&self) -> &str {
        &self.display_address
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server()).finish_non_exhaustive()
    }
}

/// Removes user and password from an address: `http://user:password@host` gives `http://host`. Also
/// works for malformed addresses, because errors print those too.
pub fn without_password(address: &str) -> Cow<'_, str> {
    let begin = address.find("://").map_or(0, |at| at + "://".len());
    match address.rfind('@') {
        Some(end) if end >= begin => {
            let (scheme, host) = (address.get(..begin), address.get(end + 1..));
            Cow::Owned([scheme, host].into_iter().flatten().collect())
        }
        Some(_) | None => Cow::Borrowed(address),
    }
}

fn parse_server(text: &str) -> Result<Url> {
    let error = || {
        let text = without_password(text);
        ClientError::Invalid(format!(
            "{text:?} is not a server address: write it as http://127.0.0.1:8080"
        ))
    };
    let url = Url::parse(text).map_err(|_| error())?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.has_host();
    match url.scheme() {
        "http" | "https" if plain => Ok(url),
        _ => Err(error()),
    }
}

fn bearer(key: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
        .map_err(|_| ClientError::Invalid("the API key contains invalid characters".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_without_a_scheme_is_rejected_with_an_example() {
        for text in ["localhost:8080", "127.0.0.1:8080", "", "ftp://host", "http://h/?q"] {
            let error = Client::new(text, None).unwrap_err();
            assert!(matches!(&error, ClientError::Invalid(_)), "{text}: {error}");
        }
        let error = Client::new("localhost:8080", None).unwrap_err();
        insta::assert_snapshot!(error, @r#""localhost:8080" is not a server address: write it as http://127.0.0.1:8080"#);
    }

    #[test]
    fn passwords_in_server_addresses_are_not_printed() {
        for text in ["ftp://me:hush@h", "me:hush@h:1", "http://me:hu@sh@h/?q", "http://me:hush@"] {
            let error = Client::new(text, None).unwrap_err().to_string();
            assert!(!error.contains("hu") && !error.contains("me:"), "{error}");
        }
        let client = Client::new("http://me:hush@h:1/base/", None).unwrap();
        assert_eq!(client.server(), "http://h:1/base");
        assert_eq!(client.url(&["v1"]).unwrap().as_str(), "http://me:hush@h:1/base/v1");
        assert!(!format!("{client:?}").contains("hush"));
    }

    #[test]
    fn client_debug_output_hides_the_api_key() {
        let client = Client::new("http://h:1", Some("lh_secret".to_owned())).unwrap();
        assert_eq!(format!("{client:?}"), r#"Client { server: "http://h:1", .. }"#);
    }
}
