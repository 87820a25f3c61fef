//! Secret strings.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A secret from the configuration or from a caller. Hidden in debug output and zeroized on drop of the last clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Creates a secret. Returns `None` for an empty text.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Arc::new(Zeroizing::new(text.to_owned()))))
    }

    /// Returns the secret text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
