//! Fuzz target: invariants of Postgres URLs.

use tokio_postgres::config::SslMode;

use super::connection::url::DatabaseUrl as Address;
use crate::fuzzing::{SECRET, Target, text};

pub(crate) const URL: Target = (
    "postgres-url",
    url,
    &[
        b"postgres://user:*@db.example:5432/jobs?sslmode=verify-full&pool_max=7&pgbouncer=true",
        b"postgres://u:*@[::1],b:1/d?sslmode=disable&target_session_attrs=read-write",
        b"postgresql:///d?host=/run/postgresql&connect_timeout=3&keepalives=0&password=*",
        b"postgres://u@h?sslrootcert=/ca.pem&sslmode=prefer&options=-c%20x%3D*",
        b"postgres://u:%zz*@h?pool_max=1&x=*",
        b"postgres://u@h?sslmode=verify-full&sslmode=disable",
        b"host=h user=u password=*",
    ],
);

/// Checks that messages never contain the password, that a pool has at least two connections, and that a
/// server whose certificate is verified is never contacted without TLS.
fn url(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Some((scheme, rest)) = text.split_once("://") else { return };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = place.replace('*', SECRET);
    // Messages quote the names of unknown settings, never their values.
    let values = query.split('&').map(|setting| match setting.split_once('=') {
        Some((name, value)) => format!("{name}={}", value.replace('*', SECRET)),
        None => setting.to_owned(),
    });
    let query = values.collect::<Vec<_>>().join("&");
    match Address::parse(&format!("{scheme}://{place}?{query}")) {
        Ok(address) => {
            assert!(address.connections_max >= 2);
            assert!(!address.verifies() || address.config.get_ssl_mode() == SslMode::Require);
        }
        Err(error) => {
            let said = format!("{error} {error:?}");
            assert!(!said.contains(SECRET), "{text:?}: {said}");
        }
    }
}
