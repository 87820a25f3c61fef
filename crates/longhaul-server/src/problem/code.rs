//! Every error that the API can answer with: one table.

use axum::http::StatusCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $code:literal, $title:literal;)*) => {
        /// A stable word for programs; with it come the status and the title.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// All of them, for documentation and tests.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word in the answer's `code`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            /// The HTTP status.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),* }
            }

            /// What people read first; the same for every problem with this code.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// Identifies the code as a relative URI.
            pub const fn type_uri(self) -> &'static str {
                match self { $(Self::$name => concat!("/problems/", $code)),* }
            }
        }
    };
}

codes! {
    /// The request is malformed in a way that no other code names.
    BadRequest = BAD_REQUEST, "bad-request", "The request is malformed";
    /// The body is not JSON.
    InvalidJson = BAD_REQUEST, "invalid-json", "The body is not valid JSON";
    /// The body nests deeper than it may.
    JsonTooDeep = BAD_REQUEST, "json-too-deep", "The body is nested too deep";
    /// The body or a parameter has a value that is not allowed.
    Validation = UNPROCESSABLE_ENTITY, "validation", "A value is not allowed";
    /// This server takes submissions only with a key.
    IdempotencyKeyRequired = BAD_REQUEST, "idempotency-key-required", "An Idempotency-Key is required";
    /// The key is empty, too long or has characters that are not visible ASCII.
    IdempotencyKeyInvalid = BAD_REQUEST, "idempotency-key-invalid", "The Idempotency-Key is not valid";
    /// The key belongs to another submission.
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY, "idempotency-key-reused", "The Idempotency-Key was used for another submission";
    /// The first request with this key is still sending its payload.
    UploadInProgress = CONFLICT, "upload-in-progress", "The first upload with this key is still in progress";
    /// The API key or token is missing or invalid.
    Unauthorized = UNAUTHORIZED, "unauthorized", "A valid key is required";
    /// The tenant's subscription is not active.
    SubscriptionInactive = PAYMENT_REQUIRED, "subscription-inactive", "The subscription is not active";
    /// The key's scopes do not allow it.
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
    /// The tenant has no endpoint of this id.
    EndpointNotFound = NOT_FOUND, "endpoint-not-found", "Unknown endpoint";
    /// The tenant has no delivery of this id.
    DeliveryNotFound = NOT_FOUND, "delivery-not-found", "Unknown delivery";
    /// No replica runs the kind.
    UnknownKind = UNPROCESSABLE_ENTITY, "unknown-kind", "Unknown kind";
    /// The job never existed, or is another tenant's.
    JobNotFound = NOT_FOUND, "job-not-found", "Unknown job";
    /// The job was deleted or expired.
    JobGone = GONE, "job-gone", "The job was deleted";
    /// The job's status does not allow the change.
    WrongStatus = CONFLICT, "wrong-status", "The job's status does not allow this";
    /// The job cannot run again without its payload.
    PayloadPurged = CONFLICT, "payload-purged", "The job's payload was deleted";
    /// The job has no such finished step.
    StepUnknown = UNPROCESSABLE_ENTITY, "step-unknown", "Unknown step";
    /// The step is stored with another output.
    StepConflict = CONFLICT, "step-conflict", "The step has another output";
    /// The worker no longer holds the job.
    LeaseLost = CONFLICT, "lease-lost", "The lease was lost";
    /// No route has this path.
    NotFound = NOT_FOUND, "not-found", "Unknown path";
    /// The path exists, but not with this method.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method-not-allowed", "The path does not allow this method";
    /// No representation that the caller accepts.
    NotAcceptable = NOT_ACCEPTABLE, "not-acceptable", "No acceptable content type";
    /// The body's content type is not understood.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The content type is not supported";
    /// The body is over a limit.
    PayloadTooLarge = PAYLOAD_TOO_LARGE, "payload-too-large", "The body is too large";
    /// The body did not arrive in time.
    RequestTimeout = REQUEST_TIMEOUT, "request-timeout", "The request took too long to arrive";
    /// The request's path and query are over a limit.
    UriTooLong = URI_TOO_LONG, "uri-too-long", "The URI is too long";
    /// The request's head has too many or too large fields.
    HeadersTooLarge = REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large", "The header fields are too large";
    /// The caller is over a rate or a quota.
    TooManyRequests = TOO_MANY_REQUESTS, "too-many-requests", "Too many requests";
    /// The tenant has reached its quota of pending jobs.
    PendingLimit = TOO_MANY_REQUESTS, "pending-limit", "Too many jobs are pending";
    /// The server or its store is temporarily unavailable.
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "The server is not available";
    /// The request was shed before it was processed.
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "The server is overloaded";
    /// The job has no artifact of this name.
    ArtifactNotFound = NOT_FOUND, "artifact-not-found", "Unknown artifact";
    RangeNotSatisfiable = RANGE_NOT_SATISFIABLE, "range-not-satisfiable", "The range is outside of the artifact";
    DigestMismatch = BAD_REQUEST, "digest-mismatch", "The body does not match its digest";
    /// The tenant has reached its quota of stored bytes.
    StoredLimit = TOO_MANY_REQUESTS, "stored-limit", "Too many bytes are stored";
    /// The disk or the blob store is full.
    StorageFull = SERVICE_UNAVAILABLE, "storage-full", "The storage is full";
    TargetFailed = BAD_GATEWAY, "target-failed", "The upstream did not respond";
    TargetTimeout = GATEWAY_TIMEOUT, "target-timeout", "The upstream did not respond in time";
    /// A bug or a broken installation.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Internal error";
}

impl Code {
    /// Returns the code for an error response of the framework.
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
