//! Schemas of values that the server restricts, beyond what field attributes can declare.

use utoipa::openapi::schema::{Array, ArrayBuilder, Object, ObjectBuilder, SchemaType, Type};

/// Events of jobs, which webhooks may subscribe to.
const JOB_EVENTS: [&str; 6] =
    ["job.pending", "job.running", "job.phase", "job.completed", "job.failed", "job.cancelled"];
/// Event of a test delivery.
const TEST_EVENT: &str = "endpoint.test";
/// Any text without control characters.
const NO_CONTROL_CHARACTERS: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";
/// Maximum number of labels of a job.
const LABELS_MAX: usize = 32;
/// Maximum length of a label's name and of its value.
const LABEL_CHARS_MAX: usize = 255;

/// Labels of a new job.
pub(super) fn labels() -> Object {
    let text = || {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .max_length(Some(LABEL_CHARS_MAX))
            .pattern(Some(NO_CONTROL_CHARACTERS))
    };
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .description(Some("Labels to find the job by."))
        .property_names(Some(text().min_length(Some(1)).build()))
        .additional_properties(Some(text()))
        .max_properties(Some(LABELS_MAX))
        .build()
}

/// Events to deliver, or null.
pub(super) fn events() -> Array {
    let event = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(JOB_EVENTS));
    ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .description(Some("Events to deliver. Defaults to all."))
        .items(event)
        .examples([serde_json::json!(["job.completed", "job.failed"])])
        .build()
}

/// Type of an event, or null.
pub(super) fn event_filter() -> Object {
    let events = JOB_EVENTS.into_iter().chain([TEST_EVENT]).map(Some).chain([None]);
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .description(Some("Matches this type of event."))
        .enum_values(Some(events.map(|event| serde_json::json!(event))))
        .build()
}
