//! Paths of blobs: `<tenant>/<job id>/<random>`.

use std::fmt;
use std::str::FromStr;

use super::cipher::random;
use crate::job::{JobId, TenantId};

/// The path of a blob, which belongs to one job of one tenant and is never reused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobPath {
    tenant: TenantId,
    job: JobId,
    random: u128,
}

/// A text that is not the path of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the path of a blob: it is <tenant>/<job id>/<32 hexadecimal digits>")]
pub struct BlobPathError;

impl BlobPath {
    /// Creates a unique path.
    pub fn new(tenant: &TenantId, job: JobId) -> Self {
        Self { tenant: tenant.clone(), job, random: u128::from_be_bytes(random()) }
    }

    /// Returns the tenant that owns the blob.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Returns the job that owns the blob.
    pub fn job(&self) -> JobId {
        self.job
    }
}

impl fmt::Display for BlobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{:032x}", self.tenant, self.job, self.random)
    }
}

impl FromStr for BlobPath {
    type Err = BlobPathError;

    fn from_str(text: &str) -> Result<Self, BlobPathError> {
        let mut parts = text.split('/');
        let mut part = || parts.next().ok_or(BlobPathError);
        let path = Self {
            tenant: TenantId::new(part()?).map_err(|_| BlobPathError)?,
            job: part()?.parse().map_err(|()| BlobPathError)?,
            random: u128::from_str_radix(part()?, 16).map_err(|_| BlobPathError)?,
        };
        // Other notations of the same path would be other objects.
        if path.to_string() == text { Ok(path) } else { Err(BlobPathError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Timestamp;

    fn path() -> BlobPath {
        let job = JobId::from_parts(Timestamp::from_millis(1_763_000_000_000), 42);
        BlobPath::new(&TenantId::new("acme.eu").unwrap(), job)
    }

    #[test]
    fn path_reads_back_from_its_text() {
        let path = path();
        assert_eq!(path.to_string().parse(), Ok(path.clone()));
        assert!(path.to_string().starts_with("acme.eu/01K9XFT7G0"), "{path}");
        assert_ne!(path, self::path());
    }

    #[test]
    fn whatever_could_lead_elsewhere_is_refused() {
        let good = path().to_string();
        let bad = [
            String::new(),
            format!("/{good}"),
            format!("{good}/"),
            format!("{good}/x"),
            good.replace("acme.eu", ".."),
            good.replace("acme.eu", ""),
            good.replace("acme.eu", "ümläut"),
            good.replace("01K", "01k"),
            format!("{}/../x", &good[..34]),
            good[..good.len() - 1].to_owned(),
            good[..good.len() - 1].to_owned() + "G",
            good[..good.len() - 1].to_owned() + "#1",
            good.replace('/', "\\"),
        ];
        for text in bad {
            assert_eq!(text.parse::<BlobPath>(), Err(BlobPathError), "{text}");
        }
    }
}
