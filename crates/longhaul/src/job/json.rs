//! JSON that is validated once and then passed on as text.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;

/// A JSON text: an input, a result or a step's output. Stored byte for byte, so that large numbers
/// and key order do not change on the way to a handler.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

/// An error of JSON parsing or conversion.
#[derive(Debug, thiserror::Error)]
pub struct JsonError(#[from] serde_json::Error);

impl JsonError {
    pub(super) fn refused(reason: impl fmt::Display) -> Self {
        Self(serde::de::Error::custom(reason))
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.classify() {
            Category::Data => self.0.fmt(f),
            Category::Io | Category::Syntax | Category::Eof => {
                write!(f, "not valid JSON: {}", self.0)
            }
        }
    }
}

impl Json {
    /// Parses a JSON text.
    pub fn from_text(text: impl Into<String>) -> Result<Self, JsonError> {
        Ok(Self(RawValue::from_string(text.into())?))
    }

    /// Serializes a value.
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Result<Self, JsonError> {
        Ok(Self(serde_json::value::to_raw_value(value)?))
    }

    /// Returns `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Deserializes the text.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        Ok(serde_json::from_str(self.as_str())?)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}
