//! Fuzz target of blob store addresses.

use std::collections::BTreeMap;

use super::CloudOptions;
use super::location::open;
use crate::fuzzing::{SECRET, Target, text};

pub(crate) const ADDRESS: Target = (
    "blob-address",
    address,
    &[
        b"memory:",
        b"s3://bucket/a/path?region=eu-central-1&endpoint=http://127.0.0.1:9000&allow_http=true",
        b"s3://user:*@bucket?virtual_hosted=maybe",
        b"az://box/path?account=me&sas=*",
        b"gs://bucket/%2F%00?endpoint=https://*",
        b"ftp://*",
        b"s3://bucket:99999/*",
    ],
);

/// Errors never quote the address, because it may contain a misplaced password. Directories are
/// left out, because opening one creates it.
fn address(bytes: &[u8]) {
    let Some(address) = text(bytes).filter(|text| !text.starts_with("file:")) else { return };
    let address = address.replace('*', SECRET);
    let options = CloudOptions { variables: Some(BTreeMap::new()), ..CloudOptions::default() };
    match open(&address, &options) {
        Ok(_) => assert!(
            ["memory:", "s3:", "az:", "gs:"].iter().any(|scheme| {
                address
                    .trim_start_matches(|c: char| c <= ' ')
                    .to_ascii_lowercase()
                    .starts_with(scheme)
            }),
            "{address:?}"
        ),
        Err(error) => {
            let said = error.to_string();
            assert!(!said.contains(SECRET), "{address:?}: {said}");
        }
    }
}
