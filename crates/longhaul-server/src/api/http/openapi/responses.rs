//! Answers that several operations give. The problems are taken from the table of codes.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::response::Response;
use utoipa::openapi::{
    ContentBuilder, Header, HeaderBuilder, ObjectBuilder, Ref, RefOr, ResponseBuilder, Type,
};

use crate::problem::Code;

type Responses = BTreeMap<String, RefOr<Response>>;

/// Describes sets of problems, each as a type that operations name.
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
    /// Of every operation that only reads.
    ReadProblems: ;
    /// Of reading one job.
    JobProblems: JobNotFound, JobGone;
    /// Of reading one job as a parameter or header says.
    JobAskedProblems: BadRequest, JobNotFound, JobGone;
    /// Of reading a result.
    ResultProblems: JobNotFound, JobGone, WrongStatus;
    /// Of reading an artifact.
    ArtifactProblems: JobNotFound, JobGone, ArtifactNotFound, RangeNotSatisfiable;
    /// Of reading a receipt.
    ReceiptProblems: JobNotFound;
    /// Of listing what parameters ask for.
    ListProblems: BadRequest, Validation;
    /// Of changing one job.
    ChangeProblems: JobNotFound, JobGone, WrongStatus, PayloadPurged, StorageFull;
    /// Of forking a job.
    ForkProblems: InvalidJson, JsonTooDeep, JobNotFound, JobGone, WrongStatus, PayloadPurged,
        PayloadTooLarge, UnsupportedMediaType, StepUnknown, Validation, StorageFull;
    /// Of changing many jobs.
    BulkProblems: InvalidJson, JsonTooDeep, PayloadTooLarge, UnsupportedMediaType, Validation,
        StorageFull;
    /// Of changing a queue.
    QueueProblems: BadRequest, StorageFull;
    /// Of submitting a job.
    SubmitProblems: BadRequest, InvalidJson, JsonTooDeep, IdempotencyKeyRequired,
        IdempotencyKeyInvalid, PayloadTooLarge, UnsupportedMediaType, Validation, UrlRefused, UnknownKind,
        IdempotencyKeyReused, UploadInProgress, DigestMismatch, StoredLimit, PendingLimit, StorageFull;
    /// Of submitting a batch.
    BatchProblems: InvalidJson, JsonTooDeep, IdempotencyKeyInvalid, PayloadTooLarge, UnsupportedMediaType,
        Validation;
    /// Of listing what only whoever runs the server sees.
    AdminProblems: BadRequest, Validation;
    /// Of ending a key.
    KeyProblems: KeyNotFound, StorageFull;
    /// Of making a key.
    NewKeyProblems: InvalidJson, KeyNotFound, TenantNotFound, PayloadTooLarge, UnsupportedMediaType,
        Validation, StorageFull;
    /// Of taking an event of the payment provider.
    BillingProblems: InvalidJson, Unauthorized, BillingOff, PayloadTooLarge, UnsupportedMediaType,
        Validation, StorageFull;
    /// Of making or changing an endpoint.
    NewEndpointProblems: InvalidJson, EndpointNotFound, PayloadTooLarge, UnsupportedMediaType,
        Validation, UrlRefused, StorageFull;
    /// Of reading, trying or deleting an endpoint.
    EndpointProblems: EndpointNotFound, StorageFull;
    /// Of reading or resending a delivery.
    DeliveryProblems: DeliveryNotFound, WrongStatus, StorageFull;
    /// Of listing what belongs to a job.
    JobListProblems: BadRequest, JobNotFound;
    /// Of reading a tenant.
    TenantProblems: TenantNotFound;
    /// Of making or changing a tenant.
    NewTenantProblems: InvalidJson, TenantNotFound, TenantExists, PayloadTooLarge,
        UnsupportedMediaType, Validation, StorageFull;
    /// Of whatever asks who calls.
    GuardProblems: Unauthorized, SubscriptionInactive, Forbidden, TooManyRequests;
    /// Of asking whether the server is ready.
    Unready: ;
}

/// One answer per status, which names the codes that it may have.
fn problems(codes: &[Code]) -> Responses {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status().as_u16()).or_default().push(*code);
    }
    let answers = by_status.into_iter().map(|(status, codes)| {
        let lines = codes.iter().map(|code| format!("`{}`: {}.", code.as_str(), code.title()));
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
        let mut response = ResponseBuilder::new()
            .description(lines.collect::<Vec<_>>().join("\n\n"))
            .content("application/problem+json", content.build());
        if [Code::Unavailable, Code::PendingLimit].iter().any(|code| code.status() == status) {
            response = response.header("Retry-After", number("When to try again, in seconds."));
        }
        if Code::PendingLimit.status() == status {
            response = response
                .header(
                    "RateLimit-Policy",
                    header("What is allowed, such as `\"pending\";q=1000000`."),
                )
                .header("RateLimit", header("What is left of it, such as `\"pending\";r=0;t=1`."));
        }
        (status.to_string(), response.build().into())
    });
    answers.collect()
}

/// The operations that whoever has a job's id may want next.
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

/// The answer to whoever set a job going or changed it.
pub(crate) struct Accepted;

impl IntoResponses for Accepted {
    fn responses() -> Responses {
        let location = || header("Where to read the job.");
        let applied = || header("Which preferences were honoured.");
        let ended = job("The job has ended: completed, failed or cancelled.")
            .header("Location", location())
            .header("Preference-Applied", applied());
        let going = job("The job was accepted and has not ended yet.")
            .header("Location", location())
            .header("Preference-Applied", applied())
            .header("Retry-After", number("When to ask again, in seconds."));
        let with_links = |response: ResponseBuilder| {
            // Every operation on one job takes its id from here.
            OF_ONE_JOB.into_iter().fold(response, |response, operation| {
                let id = LinkBuilder::new()
                    .operation_id(operation)
                    .parameter("id", "$response.body#/jobId");
                response.link(operation, id.build())
            })
        };
        [("200", ended), ("202", going)]
            .map(|(status, answer)| (status.to_owned(), with_links(answer).build().into()))
            .into()
    }
}

/// A job as it stands.
pub(crate) struct JobStated;

impl IntoResponses for JobStated {
    fn responses() -> Responses {
        let retry = number("When to ask again, in seconds; absent once the job has ended.");
        let stated = job("The job as it stands.").header("Retry-After", retry);
        [("200".to_owned(), stated.build().into())].into()
    }
}

/// The caller has the present version.
pub(crate) struct JobUnchanged;

impl IntoResponses for JobUnchanged {
    fn responses() -> Responses {
        let unchanged = ResponseBuilder::new()
            .description("The job still has a version that the caller has.")
            .header("ETag", header("The job's version."))
            .header("Retry-After", number("When to ask again, in seconds."));
        [("304".to_owned(), unchanged.build().into())].into()
    }
}

/// Events of a job.
pub(crate) struct EventStream;

impl IntoResponses for EventStream {
    fn responses() -> Responses {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let stream = ResponseBuilder::new()
            .description("Events named `job`: their `id` is the version, their `data` the job.")
            .content("text/event-stream", ContentBuilder::new().schema(Some(text)).build());
        let nothing = ResponseBuilder::new().description("There is nothing after that event.");
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

/// A header with a text.
pub(crate) fn header(description: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(text)).description(Some(description)).build()
}

/// A header with a whole number.
fn number(description: &str) -> Header {
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
    HeaderBuilder::new().schema(Some(number)).description(Some(description)).build()
}
