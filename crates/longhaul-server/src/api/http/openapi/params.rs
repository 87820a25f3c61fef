//! Parameters that several operations have.

use longhaul_client::wire::{Instant, Status, UsageBy};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, Required, Type};
use utoipa::{IntoParams, ToSchema};

/// The job's id in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only described; `JobPath` reads it")]
pub(crate) struct PathOfJob {
    /// The job's id, a ULID.
    id: String,
}

/// What to list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `list_jobs` reads it")]
pub(crate) struct ListParams {
    /// Only with one of these statuses; may repeat or be a list with commas.
    status: Option<Vec<Status>>,
    /// Only of this kind.
    kind: Option<String>,
    /// Only in this queue.
    queue: Option<String>,
    /// Only with this value of the label `NAME`; may be given for several labels.
    #[param(rename = "label.NAME")]
    label: Option<String>,
    /// Only accepted at or after this.
    created_after: Option<Instant>,
    /// At most so many.
    #[param(minimum = 1, default = 50)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Which usage.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `get_usage` reads it")]
pub(crate) struct UsageParams {
    /// From the hour that this is in; the first of the month by default.
    from: Option<Instant>,
    /// Hours that began before this, at most 400 days later; now by default.
    to: Option<Instant>,
    /// By what to sum up; by day by default.
    by: Option<UsageBy>,
    /// How to answer, if the `Accept` header does not say.
    #[param(inline)]
    format: Option<UsageFormat>,
}

/// How usage is written.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only described; `get_usage` reads it")]
enum UsageFormat {
    Json,
    Csv,
}

/// Which page of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `accounts::paging` reads it")]
pub(crate) struct PageParams {
    /// At most so many.
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// What a submission may carry besides its body.
pub(crate) struct SubmitHeaders;

impl IntoParams for SubmitHeaders {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = |name: &str, place: ParameterIn, description: &str, object: ObjectBuilder| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(place)
                .required(Required::False)
                .description(Some(description))
                .schema(Some(object.schema_type(Type::String)))
                .build()
        };
        vec![
            text(
                "Idempotency-Key",
                ParameterIn::Header,
                "Submits at most once under this key, bare or quoted. Lives as long as the job.",
                ObjectBuilder::new().min_length(Some(1)).max_length(Some(257)),
            ),
            text(
                "Prefer",
                ParameterIn::Header,
                "`wait=N` holds the answer for up to N seconds until the job has ended; `respond-async` does not.",
                ObjectBuilder::new().examples(["wait=30"]),
            ),
            text(
                "mode",
                ParameterIn::Query,
                "`sync` waits as long as the server allows.",
                ObjectBuilder::new().enum_values(Some(["sync", "async"])),
            ),
        ]
    }
}
