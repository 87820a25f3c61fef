//! Tenants, API keys and the audit log.

use serde::{Deserialize, Serialize};

use super::Instant;
use super::json::from_object;
use crate::duration::DurationText;

/// Permission of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Scope {
    /// Submit and control the tenant's jobs.
    Submit,
    /// Read and watch the tenant's jobs.
    Read,
    /// Run jobs as a remote worker.
    Work,
    /// Administer the server: tenants, API keys and everything else.
    Admin,
}

/// An API key to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyRequest {
    /// Tenant of the key. Defaults to `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub tenant: Option<String>,
    /// Name for people.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")
    )]
    pub name: String,
    /// Permissions of the key.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub scopes: Vec<Scope>,
    /// Expiry of the key. Defaults to never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// Requests per second. Defaults to the limit of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub requests_per_second: Option<u32>,
}

responses! {
    /// An API key without its secret.
    pub struct Key {
        /// Id: the public part of the key.
        pub id: String,
        /// Tenant of the key.
        pub tenant: String,
        /// Name for people.
        pub name: String,
        /// Permissions of the key.
        pub scopes: Vec<Scope>,
        /// Time of creation.
        pub created_at: Instant,
        /// Expiry; null for never.
        pub expires_at: Option<Instant>,
        /// Time of revocation; null if the key is not revoked.
        pub revoked_at: Option<Instant>,
        /// Last use, accurate to about a minute; null for never.
        pub last_used_at: Option<Instant>,
        /// Requests per second; null for the limit of the tenant.
        pub requests_per_second: Option<u32>,
        /// Id of the key that this one replaces; null if there is none.
        pub rotated_from: Option<String>,
    }
}

/// A newly created API key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewKey {
    /// The key itself. The server does not return it again.
    pub key: String,
    /// The key without its secret.
    #[serde(flatten)]
    pub metadata: Key,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

responses! {
    /// A page of API keys.
    pub struct KeyList {
        /// API keys by id, including expired and revoked ones.
        pub keys: Vec<Key>,
        /// `cursor` of the next page; null on the last page.
        pub next_cursor: Option<String>,
    }
}

/// Options of a key rotation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RotateRequest {
    /// Time for which the old key stays valid. Defaults to one day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<DurationText>,
}

/// Payment state of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Subscription {
    /// Full access.
    Active,
    /// A payment is overdue.
    PastDue,
    /// No access.
    Suspended,
}

responses! {
    /// Limits of a tenant; null for the value of the server's configuration.
    #[derive(Copy, Default)]
    pub struct TenantLimits {
        /// Requests per second of all of its keys, on each replica.
        pub requests_per_second: Option<u32>,
        /// Pending jobs.
        pub pending_max: Option<u64>,
        /// Concurrent jobs, over all replicas.
        pub running_max: Option<u32>,
        /// Total bytes of stored payloads and artifacts.
        pub stored_bytes_max: Option<u64>,
        /// Bytes of one job's input.
        pub input_bytes_max: Option<u64>,
    }

    /// A tenant.
    pub struct Tenant {
        /// Unique id.
        pub id: String,
        /// Name for people.
        pub name: String,
        /// Payment state.
        pub subscription: Subscription,
        /// Time since which it is not active; null while it is.
        pub inactive_since: Option<Instant>,
        /// Limits of the tenant.
        pub limits: TenantLimits,
        /// Customer id at the payment provider; null if there is none.
        pub billing_id: Option<String>,
        /// Time of creation.
        pub created_at: Instant,
    }

    /// A page of tenants.
    pub struct TenantList {
        /// Tenants by id.
        pub tenants: Vec<Tenant>,
        /// `cursor` of the next page; null on the last page.
        pub next_cursor: Option<String>,
    }
}

/// A tenant to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantRequest {
    /// Unique id: a letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub id: String,
    /// Name for people. Defaults to the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")
    )]
    pub name: Option<String>,
}

/// A change of a tenant. Absent fields keep their value; null resets to the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantPatch {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")
    )]
    pub name: Option<String>,
    /// Payment state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Subscription>,
    /// Limits of the tenant.
    #[serde(default, deserialize_with = "from_object")]
    pub limits: LimitsPatch,
    /// Customer id at the payment provider.
    #[serde(default, with = "patch", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub billing_id: Option<Option<String>>,
}

/// A change of limits. Absent fields keep their value; null resets to the configuration.
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

/// Distinguishes null from absent, which serde does not.
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

responses! {
    /// One entry of the audit log.
    pub struct AuditEntry {
        /// Unique id.
        pub id: String,
        /// Time of the action.
        pub at: Instant,
        /// Affected tenant.
        pub tenant: String,
        /// Actor: `key:` with a key id, `subject:` with the subject of a token, `local`, `billing` or `server`.
        pub actor: String,
        /// Action, for example `key.create`, `job.cancel` or `tenant.change`.
        pub action: String,
        /// Affected job, key, tenant or queue.
        pub target: String,
        /// Further details.
        pub detail: String,
        /// Id of the request.
        pub request_id: String,
    }

    /// A page of the audit log.
    pub struct AuditList {
        /// Entries, newest first.
        pub entries: Vec<AuditEntry>,
        /// `cursor` of the next page; null on the last page.
        pub next_cursor: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_patch_distinguishes_absent_null_and_value() {
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
    fn new_key_debug_output_hides_the_secret() {
        let text = r#"{"key":"lh_secret","id":"a","tenant":"t","name":"n","scopes":["read"],
            "createdAt":"2026-11-16T00:00:00.000Z","expiresAt":null,"revokedAt":null,
            "lastUsedAt":null,"requestsPerSecond":null,"rotatedFrom":null}"#;
        let key: NewKey = serde_json::from_str(text).unwrap();
        assert!(!format!("{key:?}").contains("secret"));
    }
}
