//! Tenants, their keys, and who did what.

use serde::{Deserialize, Serialize};

use super::Instant;
use super::json::from_object;
use crate::duration::DurationText;

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Scope {
    /// Submitting and changing the tenant's jobs.
    Submit,
    /// Reading and watching them.
    Read,
    /// Running them as a remote worker.
    Work,
    /// Running the server: tenants, keys, and everything else.
    Admin,
}

/// A key that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyRequest {
    /// Whose it is to be; the tenant `default` if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9A-Za-z][0-9A-Za-z._-]{0,63}$"))]
    pub tenant: Option<String>,
    /// For people.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub name: String,
    /// What it is to be good for.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub scopes: Vec<Scope>,
    /// When it ends by itself; never if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// Requests a second that it may make; as its tenant if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub requests_per_second: Option<u32>,
}

/// A key: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Key {
    /// Its id: the part of the key that is no secret.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// For people.
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: Instant,
    /// When it ends by itself; null for never.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Instant>,
    /// When it was revoked; null if it was not.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub revoked_at: Option<Instant>,
    /// When it was last used, to about a minute; null for never.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub last_used_at: Option<Instant>,
    /// Requests a second that it may make; null for as many as its tenant.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub requests_per_second: Option<u32>,
    /// The key that it was made in the place of; null if there is none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub rotated_from: Option<String>,
}

/// A key that was just made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewKey {
    /// The key itself: this is the only time that it is shown.
    pub key: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub kept: Key,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyList {
    /// The keys, also those that have ended, by id.
    pub keys: Vec<Key>,
    /// Where the next page begins; null on the last.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// How a key is to be replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RotateRequest {
    /// How long the old key is good for beside the new one; a day if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<DurationText>,
}

/// Whether a tenant pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Subscription {
    /// It may use everything.
    Active,
    /// A payment is due.
    PastDue,
    /// It may not use anything.
    Suspended,
}

/// How much a tenant may use; null where the server's configuration counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantLimits {
    /// Requests a second, over all of its keys, on each replica.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub requests_per_second: Option<u32>,
    /// Jobs that wait.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub pending_max: Option<u64>,
    /// Jobs that run at once, over all replicas.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub running_max: Option<u32>,
    /// Bytes of payloads and artifacts that are stored.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub stored_bytes_max: Option<u64>,
    /// Bytes of one job's input.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub input_bytes_max: Option<u64>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tenant {
    /// Its id.
    pub id: String,
    /// For people.
    pub name: String,
    /// Whether it may use the service.
    pub subscription: Subscription,
    /// Since when it is not active; null while it is.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub inactive_since: Option<Instant>,
    /// How much it may use.
    pub limits: TenantLimits,
    /// What the payment provider calls it; null if it is unknown there.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub billing_id: Option<String>,
    /// When it was made.
    pub created_at: Instant,
}

/// A page of tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantList {
    /// The tenants, by id.
    pub tenants: Vec<Tenant>,
    /// Where the next page begins; null on the last.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// A tenant that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantRequest {
    /// Its id: a letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9A-Za-z][0-9A-Za-z._-]{0,63}$"))]
    pub id: String,
    /// For people; its id if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub name: Option<String>,
}

/// A change of a tenant: what is not given stays, what is null goes back to its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantPatch {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub name: Option<String>,
    /// Whether it may use the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Subscription>,
    /// How much it may use.
    #[serde(default, deserialize_with = "from_object")]
    pub limits: LimitsPatch,
    /// What the payment provider calls it.
    #[serde(default, with = "patch", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 200))]
    pub billing_id: Option<Option<String>>,
}

/// A change of limits: what is not given stays, what is null goes back to the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the same fields as TenantLimits has")]
pub struct LimitsPatch {
    #[serde(default, with = "patch", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000))]
    pub requests_per_second: Option<Option<u32>>,
    #[serde(default, with = "patch", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 0, maximum = 1_000_000_000))]
    pub pending_max: Option<Option<u64>>,
    #[serde(default, with = "patch", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000))]
    pub running_max: Option<Option<u32>>,
    #[serde(default, with = "patch", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 0, maximum = 1_000_000_000_000_000_u64))]
    pub stored_bytes_max: Option<Option<u64>>,
    #[serde(default, with = "patch", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 1, maximum = 67_108_864))]
    pub input_bytes_max: Option<Option<u64>>,
}

/// Tells null from absent, which serde alone does not.
mod patch {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(
        clippy::option_option,
        reason = "absent, null and a value are three things on the wire"
    )]
    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Option::deserialize(deserializer).map(Some)
    }

    #[expect(clippy::ref_option, clippy::option_option, reason = "the signature is serde's")]
    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().and_then(Option::as_ref).serialize(serializer)
    }
}

/// One thing that somebody did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Its id.
    pub id: String,
    /// When.
    pub at: Instant,
    /// The tenant that it was done to.
    pub tenant: String,
    /// By whom: `key:` and a key's id, `subject:` and a token's subject, `local`, `billing` or `server`.
    pub actor: String,
    /// What: `key.create`, `job.cancel`, `tenant.change` and the like.
    pub action: String,
    /// To which job, key, tenant or queue.
    pub target: String,
    /// What else is to be known about it.
    pub detail: String,
    /// The request that it was done by.
    pub request_id: String,
}

/// A page of what was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditList {
    /// The entries, latest first.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; null on the last.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_null_and_a_value_are_three_things() {
        let read = |text| serde_json::from_str::<LimitsPatch>(text).unwrap().pending_max;
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"pendingMax":null}"#), Some(None));
        assert_eq!(read(r#"{"pendingMax":7}"#), Some(Some(7)));
        let written = |pending_max| {
            let patch = LimitsPatch { pending_max, ..LimitsPatch::default() };
            serde_json::to_string(&patch).unwrap()
        };
        assert_eq!(written(None), "{}");
        assert_eq!(written(Some(None)), r#"{"pendingMax":null}"#);
    }

    #[test]
    fn fresh_key_is_not_shown_by_mistake() {
        let text = r#"{"key":"lh_secret","id":"a","tenant":"t","name":"n","scopes":["read"],
            "createdAt":"2026-11-16T00:00:00.000Z","expiresAt":null,"revokedAt":null,
            "lastUsedAt":null,"requestsPerSecond":null,"rotatedFrom":null}"#;
        let key: NewKey = serde_json::from_str(text).unwrap();
        assert!(!format!("{key:?}").contains("secret"));
    }
}
