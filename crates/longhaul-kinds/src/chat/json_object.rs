//! JSON object with verbatim values.

use std::fmt;

use longhaul::job::{Json, JsonError};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// Object whose fields keep their order and spelling, because a target may understand more of them than
/// Longhaul.
#[derive(Debug, Clone, Default)]
pub struct JsonObject(Vec<(String, Box<RawValue>)>);

impl JsonObject {
    /// Returns a field as a type, or `None` if it is missing, null or of another type.
    pub fn get<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        serde_json::from_str::<Option<T>>(value.get()).ok().flatten()
    }

    /// Returns true if the field exists, even if it is null.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let position = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(position).1)
    }

    /// Sets a field, in its old position if it exists.
    pub fn set(&mut self, name: &str, value: &impl Serialize) -> Result<(), JsonError> {
        let value = to_raw_value(value)?;
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
        Ok(())
    }

    pub fn to_json(&self) -> Result<Json, JsonError> {
        Json::from_value(self)
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = JsonObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(JsonObject(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_fields_keep_position_and_spelling() {
        let text = r#"{"z":1.50,"stream":false,"a":{"y":1e3, "b":12345678901234567890123}}"#;
        let mut fields: JsonObject = serde_json::from_str(text).unwrap();
        fields.set("stream", &true).unwrap();
        fields.set("new", &[1]).unwrap();
        assert_eq!(
            fields.to_json().unwrap().as_str(),
            r#"{"z":1.50,"stream":true,"a":{"y":1e3, "b":12345678901234567890123},"new":[1]}"#
        );
        assert_eq!(fields.get::<bool>("stream"), Some(true));
        assert_eq!(fields.get::<String>("z"), None);
        assert!(fields.remove("z").is_some());
        assert!(!fields.has("z"));
    }

    #[test]
    fn other_json_than_objects_is_rejected() {
        for text in ["[]", "1", "null", "\"x\""] {
            assert!(serde_json::from_str::<JsonObject>(text).is_err(), "{text}");
        }
    }
}
