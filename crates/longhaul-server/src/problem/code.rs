//! Table of the problem codes.

use axum::http::StatusCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $code:literal, $title:literal;)*) => {
        /// Stable identifier of a problem, with its HTTP status and its title.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// All codes, for documentation and tests.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the value of the field `code`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),* }
            }

            /// Returns the text for people, the same for every problem with this code.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// Returns the field `type`, a relative URI.
            pub const fn type_uri(self) -> &'static str {
                match self { $(Self::$name => concat!("/problems/", $code)),* }
            }
        }
    };
}

codes! {
    /// The request is malformed in a way that no other code names.
    BadRequest = BAD_REQUEST, "bad-request", "The request is malformed";
    InvalidJson = BAD_REQUEST, "invalid-json", "The body is not valid JSON";
    JsonTooDeep = BAD_REQUEST, "json-too-deep", "The body is nested too deep";
    Validation = UNPROCESSABLE_ENTITY, "validation", "A value is not allowed";
    /// This server takes submissions only with a key.
    IdempotencyKeyRequired = BAD_REQUEST, "idempotency-key-required", "An Idempotency-Key is required";
    /// The key is empty, too long or has characters that are not visible ASCII.
    IdempotencyKeyInvalid = BAD_REQUEST, "idempotency-key-invalid", "The Idempotency-Key is not valid";
    /// The key belongs to another submission.
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY, "idempotency-key-reused", "The Idempotency-Key was used for another submission";
    /// The first request with this key is still sending its payload.
    UploadInProgress = CONFLICT, "upload-in-progress", "The first upload with this key is still in progress";
    Unauthorized = UNAUTHORIZED, "unauthorized", "A valid key is required";
    SubscriptionInactive = PAYMENT_REQUIRED, "subscription-inactive", "The subscription is not active";
    Forbidden = FORBIDDEN, "forbidden", "The key does not allow this";
    /// A server without keys does not serve this `Host`.
    HostNotAllowed = MISDIRECTED_REQUEST, "host-not-allowed", "The host name is not allowed";
    /// A page of another site sent the request to a server without keys.
    CrossSite = FORBIDDEN, "cross-site", "Pages of other sites are not allowed";
    KeyNotFound = NOT_FOUND, "key-not-found", "Unknown key";
    TenantNotFound = NOT_FOUND, "tenant-not-found", "Unknown tenant";
    /// No Stripe secret is configured.
    BillingOff = NOT_FOUND, "billing-not-configured", "Billing is not configured";
    /// No chat targets are configured.
    ChatOff = NOT_FOUND, "chat-not-configured", "Chat is not configured";
    RenderOff = NOT_FOUND, "render-not-configured", "Rendering is disabled";
    TenantExists = CONFLICT, "tenant-exists", "The tenant already exists";
    /// The egress policy forbids the URL.
    UrlRefused = UNPROCESSABLE_ENTITY, "url-refused", "The URL is not allowed";
    EndpointNotFound = NOT_FOUND, "endpoint-not-found", "Unknown endpoint";
    DeliveryNotFound = NOT_FOUND, "delivery-not-found", "Unknown delivery";
    /// No replica runs the kind.
    UnknownKind = UNPROCESSABLE_ENTITY, "unknown-kind", "Unknown kind";
    /// The job never existed, or is another tenant's.
    JobNotFound = NOT_FOUND, "job-not-found", "Unknown job";
    /// The job was deleted or expired.
    JobGone = GONE, "job-gone", "The job was deleted";
    WrongStatus = CONFLICT, "wrong-status", "The job's status does not allow this";
    /// The job cannot run again without its payload.
    PayloadPurged = CONFLICT, "payload-purged", "The job's payload was deleted";
    StepUnknown = UNPROCESSABLE_ENTITY, "step-unknown", "Unknown step";
    StepConflict = CONFLICT, "step-conflict", "The step has another output";
    LeaseLost = CONFLICT, "lease-lost", "The lease was lost";
    NotFound = NOT_FOUND, "not-found", "Unknown path";
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method-not-allowed", "The path does not allow this method";
    NotAcceptable = NOT_ACCEPTABLE, "not-acceptable", "No acceptable content type";
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The content type is not supported";
    PayloadTooLarge = PAYLOAD_TOO_LARGE, "payload-too-large", "The body is too large";
    RequestTimeout = REQUEST_TIMEOUT, "request-timeout", "The request took too long to arrive";
    UriTooLong = URI_TOO_LONG, "uri-too-long", "The URI is too long";
    HeadersTooLarge = REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large", "The header fields are too large";
    /// The caller is over a rate or a quota.
    TooManyRequests = TOO_MANY_REQUESTS, "too-many-requests", "Too many requests";
    PendingLimit = TOO_MANY_REQUESTS, "pending-limit", "Too many jobs are pending";
    /// The server or its store is temporarily unavailable.
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "The server is not available";
    /// The request was shed before it was processed.
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "The server is overloaded";
    ArtifactNotFound = NOT_FOUND, "artifact-not-found", "Unknown artifact";
    RangeNotSatisfiable = RANGE_NOT_SATISFIABLE, "range-not-satisfiable", "The range is outside of the artifact";
    DigestMismatch = BAD_REQUEST, "digest-mismatch", "The body does not match its digest";
    StoredLimit = TOO_MANY_REQUESTS, "stored-limit", "Too many bytes are stored";
    /// The disk or the blob store is full.
    StorageFull = SERVICE_UNAVAILABLE, "storage-full", "The storage is full";
    TargetFailed = BAD_GATEWAY, "target-failed", "The upstream did not respond";
    TargetTimeout = GATEWAY_TIMEOUT, "target-timeout", "The upstream did not respond in time";
    /// A bug or a broken installation.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Internal error";
}

impl Code {
    pub(super) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Self::MethodNotAllowed,
            StatusCode::NOT_ACCEPTABLE => Self::NotAcceptable,
            StatusCode::REQUEST_TIMEOUT => Self::RequestTimeout,
            StatusCode::PAYLOAD_TOO_LARGE => Self::PayloadTooLarge,
            StatusCode::URI_TOO_LONG => Self::UriTooLong,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::UnsupportedMediaType,
            StatusCode::UNPROCESSABLE_ENTITY => Self::Validation,
            StatusCode::TOO_MANY_REQUESTS => Self::TooManyRequests,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Self::HeadersTooLarge,
            StatusCode::SERVICE_UNAVAILABLE => Self::Unavailable,
            other if other.is_server_error() => Self::Internal,
            _ => Self::BadRequest,
        }
    }
}
