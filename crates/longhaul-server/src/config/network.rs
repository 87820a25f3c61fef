//! What stands between the server and the network.

use super::check::Check;
use super::value::Entry;
use crate::listen::TlsFiles;

/// A certificate without its key is a mistake, and so is a key without its certificate.
#[expect(clippy::option_option, reason = "none is wrong, some none is HTTP in clear")]
pub(super) fn tls(check: &mut Check) -> Option<Option<TlsFiles>> {
    let text = |entry: &Entry, key: &str| entry.text(key).map(str::to_owned);
    let (cert, key) = (check.read("tls.cert", text), check.read("tls.key", text));
    let (cert, key) = (cert?, key?);
    let lone = match (cert.is_empty(), key.is_empty()) {
        (true, true) => return Some(None),
        (false, false) => return Some(Some(TlsFiles { cert: cert.into(), key: key.into() })),
        (false, true) => ("tls.cert", "it needs `tls.key`, the file with its key"),
        (true, false) => ("tls.key", "it needs `tls.cert`, the file with its certificate"),
    };
    let (given, why) = lone;
    check.read(given, |entry, key| Err(entry.refused(key, why)))
}
