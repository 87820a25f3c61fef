//! Cloud object stores. Credentials come from each vendor's usual environment variables and never
//! from an address, because addresses are logged.

use std::collections::BTreeMap;
use std::error::Error;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::client::HttpError;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use url::Url;

use super::error::{BlobError, with_causes};
use super::location::{Backend, CloudOptions, OpenedStore, PartPolicy, RequestPolicy, VersionInfo};

/// S3 requires parts of at least 5 MiB, and allows up to ten thousand.
const PARTS: PartPolicy = PartPolicy { bytes: 8 * 1024 * 1024, in_flight_max: 3 };
/// Growth factor of the backoff, before jitter.
const PAUSE_GROWTH: f64 = 2.0;

/// Wraps a store so that all blobs have the address's path as prefix.
pub(super) fn opened(
    url: &Url,
    store: Arc<dyn ObjectStore>,
    version_info: VersionInfo,
) -> Result<OpenedStore, BlobError> {
    let prefix = Path::from_url_path(url.path())
        .map_err(|_| BlobError::refused("the path in its address is not understood"))?;
    let store = Arc::new(PrefixStore::new(store, prefix));
    Ok(OpenedStore { store, backend: Backend::Cloud(version_info), parts: PARTS })
}

#[cfg(feature = "s3")]
pub(super) fn s3(url: &Url, options: &CloudOptions) -> Result<Arc<dyn ObjectStore>, BlobError> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
    let mut builder = match &options.variables {
        None => AmazonS3Builder::from_env(),
        Some(variables) => named(variables, "AWS_")
            .fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value)),
    };
    builder = builder.with_bucket_name(bucket(url)?).with_retry(retry(&options.requests));
    let mut http = None;
    for (name, value) in url.query_pairs() {
        match &*name {
            "endpoint" => builder = builder.with_config(Key::S3Endpoint, endpoint(&value)?),
            "region" => builder = builder.with_config(Key::Region, value),
            "virtual_hosted" => {
                builder = builder.with_virtual_hosted_style_request(flag(&name, &value)?);
            }
            "allow_http" => http = Some(flag(&name, &value)?),
            _ => return Err(unknown("endpoint, region, virtual_hosted, allow_http")),
        }
    }
    for (key, value) in client(&options.requests, http) {
        builder = builder.with_config(Key::Client(key), value);
    }
    Ok(Arc::new(builder.build().map_err(|error| unusable(&error))?))
}

#[cfg(feature = "azure")]
pub(super) fn azure(url: &Url, options: &CloudOptions) -> Result<Arc<dyn ObjectStore>, BlobError> {
    use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};
    let mut builder = match &options.variables {
        None => MicrosoftAzureBuilder::from_env(),
        Some(variables) => named(variables, "AZURE_")
            .fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
                builder.with_config(key, value)
            }),
    };
    builder = builder.with_container_name(bucket(url)?).with_retry(retry(&options.requests));
    let mut http = None;
    for (name, value) in url.query_pairs() {
        match &*name {
            "account" => builder = builder.with_account(value),
            "endpoint" => builder = builder.with_endpoint(endpoint(&value)?),
            "allow_http" => http = Some(flag(&name, &value)?),
            _ => return Err(unknown("account, endpoint, allow_http")),
        }
    }
    for (key, value) in client(&options.requests, http) {
        builder = builder.with_config(Key::Client(key), value);
    }
    Ok(Arc::new(builder.build().map_err(|error| unusable(&error))?))
}

#[cfg(feature = "gcs")]
pub(super) fn gcs(url: &Url, options: &CloudOptions) -> Result<Arc<dyn ObjectStore>, BlobError> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Key};
    let mut builder = match &options.variables {
        None => GoogleCloudStorageBuilder::from_env(),
        Some(variables) => named(variables, "GOOGLE_")
            .fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
                builder.with_config(key, value)
            }),
    };
    builder = builder.with_bucket_name(bucket(url)?).with_retry(retry(&options.requests));
    let mut http = None;
    for (name, value) in url.query_pairs() {
        match &*name {
            "endpoint" => builder = builder.with_config(Key::BaseUrl, endpoint(&value)?),
            "allow_http" => http = Some(flag(&name, &value)?),
            _ => return Err(unknown("endpoint, allow_http")),
        }
    }
    for (key, value) in client(&options.requests, http) {
        builder = builder.with_config(Key::Client(key), value);
    }
    // The message may quote from a malformed service account.
    Ok(Arc::new(builder.build().map_err(|_| {
        BlobError::refused("what GOOGLE_* in the environment says of credentials cannot be used")
    })?))
}

/// Returns the settings among the variables. Other variables are ignored.
fn named<'a, Key: FromStr>(
    variables: &'a BTreeMap<String, String>,
    prefix: &'static str,
) -> impl Iterator<Item = (Key, &'a str)> {
    let ours = variables.iter().filter(move |(name, _)| name.starts_with(prefix));
    ours.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, &**value)))
}

fn bucket(url: &Url) -> Result<&str, BlobError> {
    let name = url.host_str().filter(|name| !name.is_empty());
    name.ok_or_else(|| BlobError::refused("its address names no bucket or container"))
}

fn endpoint(text: &str) -> Result<String, BlobError> {
    let url = Url::parse(text).ok();
    let is_whole = url.is_some_and(|url| url.has_host() && url.username().is_empty());
    is_whole.then(|| text.to_owned()).ok_or_else(|| {
        BlobError::refused("the endpoint in its address is not an http:// or https:// address")
    })
}

fn flag(name: &str, text: &str) -> Result<bool, BlobError> {
    text.parse().map_err(|_| BlobError::Refused(format!("{name} in its address is true or false")))
}

fn unknown(known: &str) -> BlobError {
    BlobError::Refused(format!(
        "its address has a setting other than {known}; credentials come from the environment"
    ))
}

/// Reports a setting that the builder misses. The message names environment variables, not their
/// values.
fn unusable(error: &object_store::Error) -> BlobError {
    BlobError::Refused(with_causes(error))
}

/// Returns HTTP client settings in addition to those from the environment.
fn client(requests: &RequestPolicy, allow_http: Option<bool>) -> Vec<(ClientConfigKey, String)> {
    // Installs the crypto provider, unless the program has chosen one.
    drop(rustls::crypto::ring::default_provider().install_default());
    let millis = |duration: Duration| format!("{}ms", duration.as_millis());
    let mut settings = vec![
        (ClientConfigKey::ConnectTimeout, millis(requests.connect_timeout)),
        (ClientConfigKey::Timeout, millis(requests.request_timeout)),
    ];
    settings.extend(allow_http.map(|allow| (ClientConfigKey::AllowHttp, allow.to_string())));
    settings
}

fn retry(requests: &RequestPolicy) -> RetryConfig {
    let tries = u32::try_from(requests.retries_max).unwrap_or(u32::MAX).saturating_add(1);
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: requests.backoff_initial,
            max_backoff: requests.backoff_max,
            base: PAUSE_GROWTH,
        },
        max_retries: requests.retries_max,
        // Long enough for every try to time out: the number of retries is the limit.
        retry_timeout: Duration::saturating_mul(
            requests.request_timeout.saturating_add(requests.backoff_max),
            tries,
        ),
    }
}

/// Returns a description if the cause is a failed, interrupted or silent connection.
pub(super) fn lost_line(cause: &(dyn Error + 'static)) -> Option<String> {
    cause.downcast_ref::<HttpError>().map(|error| with_causes(error))
}
