//! Scalar types of the wire format: unparsed JSON and instants.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Reads a struct from an object only, because serde also accepts a list of its fields.
pub(super) fn from_object<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned,
    D: serde::Deserializer<'de>,
{
    let object = serde_json::Map::deserialize(deserializer)?;
    T::deserialize(serde_json::Value::Object(object)).map_err(serde::de::Error::custom)
}

/// [`from_object`], or `null`.
pub(super) fn from_object_or_null<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: DeserializeOwned,
    D: serde::Deserializer<'de>,
{
    let object = Option::<serde_json::Map<_, _>>::deserialize(deserializer)?;
    let read = |object| T::deserialize(serde_json::Value::Object(object));
    object.map(read).transpose().map_err(serde::de::Error::custom)
}

/// Any JSON value, kept as text, so that large results are not parsed and neither large numbers nor
/// the order of keys change.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Validates a JSON text.
    pub fn from_text(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// Serializes a value.
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Returns `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Deserializes the value.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self::null()
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(value: Box<RawValue>) -> Self {
        Self(value)
    }
}

impl From<RawJson> for Box<RawValue> {
    fn from(json: RawJson) -> Self {
        json.0
    }
}

/// Compares texts: two notations of one value differ.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An RFC 3339 instant. The server writes UTC with milliseconds (`2026-11-15T08:00:00.000Z`) and
/// accepts any offset.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(
    feature = "openapi",
    schema(value_type = String, format = DateTime, example = "2026-11-15T08:00:00.000Z")
)]
pub struct Instant(pub String);

impl Instant {
    /// Returns the RFC 3339 text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Instant {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Instant {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_json_keeps_its_text() {
        let text = r#"{"z":1, "a":123456789012345678901234567890}"#;
        let json: RawJson = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
    }
}
