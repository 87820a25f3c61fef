//! Responses shared by several operations. Problems come from the table of codes.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::response::Response;
use utoipa::openapi::{
    ContentBuilder, Header, HeaderBuilder, ObjectBuilder, Ref, RefOr, ResponseBuilder, Type,
};

use crate::problem::Code;

type Responses = BTreeMap<String, RefOr<Response>>;

/// Declares sets of problems as types that operations refer to.
macro_rules! problems {
    ($($(#[$doc:meta])* $set:ident: $($code:ident),*;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $set;

        impl IntoResponses for $set {
            fn responses() -> Responses {
                problems(&[$(Code::$code,)* Code::Unavailable, Code::Overloaded, Code::Internal])
            }
        }
    )*};
}

problems! {
    ReadProblems: ;
    JobProblems: JobNotFound, JobGone;
    JobQueryProblems: BadRequest, JobNotFound, JobGone;
    ResultProblems: JobNotFound, JobGone, WrongStatus;
    ArtifactProblems: JobNotFound, JobGone, ArtifactNotFound, RangeNotSatisfiable;
    ReceiptProblems: JobNotFound;
    ListProblems: BadRequest, Validation;
    ChangeProblems: JobNotFound, JobGone, WrongStatus, PayloadPurged, StorageFull;
    ForkProblems: InvalidJson, JsonTooDeep, JobNotFound, JobGone, WrongStatus, PayloadPurged,
        PayloadTooLarge, UnsupportedMediaType, StepUnknown, Validation, StorageFull;
    BulkProblems: InvalidJson, JsonTooDeep, PayloadTooLarge, UnsupportedMediaType, Validation,
        StorageFull;
    QueueProblems: BadRequest, StorageFull;
    SubmitProblems: BadRequest, InvalidJson, JsonTooDeep, IdempotencyKeyRequired,
        IdempotencyKeyInvalid, PayloadTooLarge, UnsupportedMediaType, Validation, UrlRefused, UnknownKind,
        IdempotencyKeyReused, UploadInProgress, DigestMismatch, StoredLimit, PendingLimit, StorageFull;
    BatchProblems: InvalidJson, JsonTooDeep, IdempotencyKeyInvalid, PayloadTooLarge, UnsupportedMediaType,
        Validation;
    AdminProblems: BadRequest, Validation;
    KeyProblems: KeyNotFound, StorageFull;
    NewKeyProblems: InvalidJson, KeyNotFound, TenantNotFound, PayloadTooLarge, UnsupportedMediaType,
        Validation, StorageFull;
    BillingProblems: InvalidJson, Unauthorized, BillingOff, PayloadTooLarge, UnsupportedMediaType,
        Validation, StorageFull;
    NewEndpointProblems: InvalidJson, EndpointNotFound, PayloadTooLarge, UnsupportedMediaType,
        Validation, UrlRefused, StorageFull;
    EndpointProblems: EndpointNotFound, StorageFull;
    DeliveryProblems: DeliveryNotFound, WrongStatus, StorageFull;
    JobListProblems: BadRequest, JobNotFound;
    TenantProblems: TenantNotFound;
    NewTenantProblems: InvalidJson, TenantNotFound, TenantExists, PayloadTooLarge,
        UnsupportedMediaType, Validation, StorageFull;
    /// Errors of authentication and authorization.
    GuardProblems: Unauthorized, SubscriptionInactive, Forbidden, TooManyRequests;
    Unready: ;
}

/// Describes one response per status, with its possible codes.
fn problems(codes: &[Code]) -> Responses {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status().as_u16()).or_default().push(*code);
    }
    let responses = by_status.into_iter().map(|(status, codes)| {
        let lines = codes.iter().map(|code| format!("`{}`: {}.", code.as_str(), code.title()));
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
        let mut response = ResponseBuilder::new()
            .description(lines.collect::<Vec<_>>().join("\n\n"))
            .content("application/problem+json", content.build());
        if [Code::Unavailable, Code::PendingLimit].iter().any(|code| code.status() == status) {
            response = response.header("Retry-After", number("Seconds until a retry."));
        }
        if Code::PendingLimit.status() == status {
            response = response
                .header(
                    "RateLimit-Policy",
                    header("The quota, for example `\"pending\";q=1000000`."),
                )
                .header(
                    "RateLimit",
                    header("The remaining quota, for example `\"pending\";r=0;t=1`."),
                );
        }
        (status.to_string(), response.build().into())
    });
    responses.collect()
}

/// Operations that accept a job's id, linked from the responses that return one.
const OF_ONE_JOB: [&str; 11] = [
    "getJob",
    "getJobInput",
    "getJobResult",
    "getReceipt",
    "listJobSteps",
    "listJobAttempts",
    "listJobDeliveries",
    "cancelJob",
    "resumeJob",
    "forkJob",
    "purgeJob",
];

/// Response to a submission or a change of a job.
pub(crate) struct AcceptedJob;

impl IntoResponses for AcceptedJob {
    fn responses() -> Responses {
        let location = || header("URL of the job.");
        let applied = || header("Preferences that were honoured.");
        let finished = job("The job has finished: completed, failed or cancelled.")
            .header("Location", location())
            .header("Preference-Applied", applied());
        let unfinished = job("The job was accepted and has not finished yet.")
            .header("Location", location())
            .header("Preference-Applied", applied())
            .header("Retry-After", number("Seconds until the next poll."));
        let with_links = |response: ResponseBuilder| {
            OF_ONE_JOB.into_iter().fold(response, |response, operation| {
                let id = LinkBuilder::new()
                    .operation_id(operation)
                    .parameter("id", "$response.body#/jobId");
                response.link(operation, id.build())
            })
        };
        [("200", finished), ("202", unfinished)]
            .map(|(status, response)| (status.to_owned(), with_links(response).build().into()))
            .into()
    }
}

pub(crate) struct CurrentJob;

impl IntoResponses for CurrentJob {
    fn responses() -> Responses {
        let retry = number("Seconds until the next poll; absent once the job has finished.");
        let current = job("The job.").header("Retry-After", retry);
        [("200".to_owned(), current.build().into())].into()
    }
}

pub(crate) struct JobUnchanged;

impl IntoResponses for JobUnchanged {
    fn responses() -> Responses {
        let unchanged = ResponseBuilder::new()
            .description("The job still has the caller's version.")
            .header("ETag", header("The job's version."))
            .header("Retry-After", number("Seconds until the next poll."));
        [("304".to_owned(), unchanged.build().into())].into()
    }
}

pub(crate) struct EventStream;

impl IntoResponses for EventStream {
    fn responses() -> Responses {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let stream = ResponseBuilder::new()
            .description("Server-sent events named `job`: `id` is the version, `data` the job.")
            .content("text/event-stream", ContentBuilder::new().schema(Some(text)).build());
        let nothing = ResponseBuilder::new()
            .description("No events after `Last-Event-ID`: the job has finished.");
        [("200".to_owned(), stream.build().into()), ("204".to_owned(), nothing.build().into())]
            .into()
    }
}

fn job(description: &str) -> ResponseBuilder {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Job")));
    ResponseBuilder::new()
        .description(description)
        .content("application/json", content.build())
        .header("ETag", header("The job's version."))
}

pub(crate) fn header(description: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(text)).description(Some(description)).build()
}

fn number(description: &str) -> Header {
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
    HeaderBuilder::new().schema(Some(number)).description(Some(description)).build()
}
