//! Texts that must not be seen.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A secret from the configuration or from a caller. It shows none of itself, wherever it is printed or logged, and is
/// overwritten when the last of its clones goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Takes a text; nothing of an empty one.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Arc::new(Zeroizing::new(text.to_owned()))))
    }

    /// The text, for whoever needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
