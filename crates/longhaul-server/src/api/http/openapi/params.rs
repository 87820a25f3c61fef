//! Parameters shared by several operations.

use longhaul_client::wire::{Instant, Status, UsageBy};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, Required, Type};
use utoipa::{IntoParams, ToSchema};

/// 1 to 255 visible ASCII characters, bare or as a quoted string.
const IDEMPOTENCY_KEY_PATTERN: &str = r#"^([!#-~][!-~]{0,254}|"([!#-\[\]-~]|\\["\\]){1,255}")$"#;

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only described; `JobPath` reads it")]
pub(crate) struct PathOfJob {
    /// The job's id, a ULID.
    id: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `list_jobs` reads it")]
pub(crate) struct JobListParams {
    /// Status filter; may be repeated or a comma-separated list.
    status: Option<Vec<Status>>,
    /// Kind filter.
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    kind: Option<String>,
    /// Queue filter.
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    queue: Option<String>,
    /// Value of the label `NAME`; may be given for several labels.
    #[param(rename = "label.NAME")]
    label: Option<String>,
    /// Only jobs submitted at or after this instant.
    created_after: Option<Instant>,
    /// Maximum page size. The maximum is that of the default configuration.
    #[param(minimum = 1, maximum = 1_000, default = 50)]
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    #[param(pattern = "^a[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$")]
    cursor: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `get_usage` reads it")]
pub(crate) struct UsageParams {
    /// Start, rounded down to the hour. Defaults to the first of the month.
    from: Option<Instant>,
    /// End, exclusive, at most 400 days after `from`. Defaults to now.
    to: Option<Instant>,
    /// Interval of the sums. Defaults to `day`.
    by: Option<UsageBy>,
    /// Response format. Defaults to the `Accept` header.
    #[param(inline)]
    format: Option<UsageFormat>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only described; `get_usage` reads it")]
enum UsageFormat {
    Json,
    Csv,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `accounts::paging` reads it")]
pub(crate) struct PageParams {
    /// Page size.
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// [`PageParams`] of tenants, whose cursors are tenant ids.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `accounts::paging` reads it")]
pub(crate) struct TenantPageParams {
    /// Page size.
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    cursor: Option<String>,
}

/// [`PageParams`] of deliveries, whose cursors are delivery ids.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described; `accounts::paging` reads it")]
pub(crate) struct DeliveryPageParams {
    /// Page size.
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    #[param(pattern = "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$")]
    cursor: Option<String>,
}

/// Headers and query parameters of a submission.
pub(crate) struct SubmitHeaders;

impl IntoParams for SubmitHeaders {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = |name: &str, location: ParameterIn, description: &str, object: ObjectBuilder| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(location)
                .required(Required::False)
                .description(Some(description))
                .schema(Some(object.schema_type(Type::String)))
                .build()
        };
        vec![
            text(
                "Idempotency-Key",
                ParameterIn::Header,
                "Idempotency key, bare or quoted. A repeated submission with the same key returns the existing job. Valid as long as the job is kept.",
                ObjectBuilder::new().pattern(Some(IDEMPOTENCY_KEY_PATTERN)),
            ),
            text(
                "Prefer",
                ParameterIn::Header,
                "`wait=N` waits up to N seconds for the job to finish; `respond-async` returns at once.",
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
