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
    /// No key was sent, or none that is good for anything.
    Unauthorized = UNAUTHORIZED, "unauthorized", "A valid key is required";
    /// The tenant does not pay.
    SubscriptionInactive = PAYMENT_REQUIRED, "subscription-inactive", "The subscription is not active";
    /// The key's scopes do not allow it.
    Forbidden = FORBIDDEN, "forbidden", "The key does not allow this";
    /// There is no key of this id.
    KeyNotFound = NOT_FOUND, "key-not-found", "There is no such key";
    /// There is no tenant of this id.
    TenantNotFound = NOT_FOUND, "tenant-not-found", "There is no such tenant";
    /// The server takes no events of the payment provider.
    BillingOff = NOT_FOUND, "billing-not-configured", "Billing is not configured";
    /// The server has no language models to call.
    ChatOff = NOT_FOUND, "chat-not-configured", "Chats are not configured";
    /// The server draws no diagrams.
    RenderOff = NOT_FOUND, "render-not-configured", "Diagrams are not configured";
    /// There is a tenant of this id already.
    TenantExists = CONFLICT, "tenant-exists", "There is a tenant of this id already";
    /// This server may not reach the URL.
    UrlRefused = UNPROCESSABLE_ENTITY, "url-refused", "The URL may not be reached";
    /// The tenant has no endpoint of this id.
    EndpointNotFound = NOT_FOUND, "endpoint-not-found", "There is no such endpoint";
    /// The tenant has no delivery of this id.
    DeliveryNotFound = NOT_FOUND, "delivery-not-found", "There is no such delivery";
    /// Nothing declares the kind.
    UnknownKind = UNPROCESSABLE_ENTITY, "unknown-kind", "There is no such kind";
    /// The job never existed, or is another tenant's.
    JobNotFound = NOT_FOUND, "job-not-found", "There is no such job";
    /// The job was deleted or expired.
    JobGone = GONE, "job-gone", "The job is no longer kept";
    /// The job's status does not allow the change.
    WrongStatus = CONFLICT, "wrong-status", "The job's status does not allow this";
    /// The job cannot run again without its payload.
    PayloadPurged = CONFLICT, "payload-purged", "The job's payload is gone";
    /// The job has no such finished step.
    StepUnknown = UNPROCESSABLE_ENTITY, "step-unknown", "The job has no such step";
    /// The step is stored with another output.
    StepConflict = CONFLICT, "step-conflict", "The step has another output";
    /// The worker no longer holds the job.
    LeaseLost = CONFLICT, "lease-lost", "The lease on this job is lost";
    /// No route has this path.
    NotFound = NOT_FOUND, "not-found", "There is nothing at this path";
    /// The path exists, but not with this method.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method-not-allowed", "The path does not allow this method";
    /// No representation that the caller accepts.
    NotAcceptable = NOT_ACCEPTABLE, "not-acceptable", "None of the accepted types can be given";
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
    /// The tenant has as many pending jobs as it may have.
    PendingLimit = TOO_MANY_REQUESTS, "pending-limit", "Too many jobs are pending";
    /// The server cannot do it now.
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "The server is not available";
    /// The server has more to do than it can do soon; nothing was done.
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "The server is overloaded";
    /// The job has no artifact of this name.
    ArtifactNotFound = NOT_FOUND, "artifact-not-found", "The job has no such artifact";
    /// The bytes that were asked for are not there.
    RangeNotSatisfiable = RANGE_NOT_SATISFIABLE, "range-not-satisfiable", "The range is outside of the artifact";
    /// The body is not what its digest says.
    DigestMismatch = BAD_REQUEST, "digest-mismatch", "The body does not have the digest that it says";
    /// As many bytes are stored for the tenant as may be.
    StoredLimit = TOO_MANY_REQUESTS, "stored-limit", "Too many bytes are stored";
    /// There is no room for new jobs.
    StorageFull = SERVICE_UNAVAILABLE, "storage-full", "The storage is full";
    /// The endpoint behind a proxied path gave no answer.
    TargetFailed = BAD_GATEWAY, "target-failed", "The endpoint behind this path gave no answer";
    /// The endpoint behind a proxied path gave no answer in time.
    TargetTimeout = GATEWAY_TIMEOUT, "target-timeout", "The endpoint behind this path gave no answer in time";
    /// A bug or a broken server.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Something went wrong on the server";
}

impl Code {
    /// The nearest code for an answer that the framework gave, whose own status stays.
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
