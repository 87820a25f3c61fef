//! Converts a kind's JSON schema into form fields, and the submitted fields into a job's input.

use longhaul::Kind;
use longhaul_client::wire::RawJson;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::api::http::body;
use crate::dashboard::form::Form;
use crate::problem::{Code, Problem, Result};

/// Name of the field that holds the input as JSON.
const INPUT_FIELD: &str = "input";

/// The input part of the form: one field per property of the schema, or one field for JSON.
pub(super) enum InputForm {
    Fields(Vec<Field>),
    Json { example: String },
}

pub(super) struct Field {
    name: String,
    help: String,
    required: bool,
    value_type: FieldType,
}

enum FieldType {
    Text,
    Multiline,
    Integer,
    Number,
    Boolean,
    Choice(Vec<String>),
    Json,
}

impl InputForm {
    /// Returns one field per property of the schema, or one JSON field if there is no schema or `as_json` is set.
    pub(super) fn of(kind: &Kind, as_json: bool) -> Self {
        let schema: Option<Value> = kind
            .settings()
            .input_schema
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok());
        let properties = schema.as_ref().and_then(|schema| schema["properties"].as_object());
        let example = || schema.as_ref().and_then(|schema| schema["examples"].get(0)).cloned();
        let Some(properties) = properties.filter(|_| !as_json) else {
            let example = example().and_then(|value| serde_json::to_string_pretty(&value).ok());
            return Self::Json { example: example.unwrap_or_else(|| "{}".to_owned()) };
        };
        let required = schema.as_ref().and_then(|schema| schema["required"].as_array());
        let is_required = |name: &str| {
            required.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let field = |(name, schema): (&String, &Value)| Field {
            name: name.clone(),
            help: schema["description"].as_str().unwrap_or_default().to_owned(),
            required: is_required(name),
            value_type: FieldType::of(schema),
        };
        Self::Fields(properties.iter().map(field).collect())
    }

    pub(super) fn has_fields(&self) -> bool {
        matches!(self, Self::Fields(_))
    }

    pub(super) fn write(&self, form: &Form) -> Markup {
        match self {
            Self::Fields(fields) => html! { @for field in fields { (field.write(form)) } },
            Self::Json { example } => {
                let written = form.verbatim(INPUT_FIELD).unwrap_or(example);
                html! {
                    input type="hidden" name="as" value="json";
                    p {
                        label for=(INPUT_FIELD) { "Input" }
                        textarea #(INPUT_FIELD) name=(INPUT_FIELD) rows="10" spellcheck="false"
                            aria-describedby="input-help" {
                            (written)
                        }
                        span #input-help.help { "Any JSON value." }
                    }
                }
            }
        }
    }

    /// Builds the input from the submitted form. Empty fields are omitted.
    pub(super) fn read(&self, form: &Form) -> Result<RawJson> {
        let fields = match self {
            Self::Json { .. } => {
                return json(INPUT_FIELD, form.verbatim(INPUT_FIELD).unwrap_or("null"));
            }
            Self::Fields(fields) => fields,
        };
        let mut input = Map::new();
        for field in fields {
            if let Some(value) = field.read(form)? {
                input.insert(field.name.clone(), value);
            }
        }
        RawJson::from_value(&input).map_err(Problem::internal)
    }
}

impl FieldType {
    fn of(schema: &Value) -> Self {
        if let Some(words) = schema["enum"].as_array() {
            return Self::Choice(
                words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            );
        }
        match (schema["type"].as_str(), schema["format"].as_str()) {
            (Some("string"), Some("text")) => Self::Multiline,
            (Some("string"), _) => Self::Text,
            (Some("integer"), _) => Self::Integer,
            (Some("number"), _) => Self::Number,
            (Some("boolean"), _) => Self::Boolean,
            (_, _) => Self::Json,
        }
    }
}

impl Field {
    /// Returns the name in the form, with a prefix so that it cannot collide with other fields.
    fn key(&self) -> String {
        format!("input.{}", self.name)
    }

    fn write(&self, form: &Form) -> Markup {
        let key = self.key();
        let value = form.verbatim(&key).unwrap_or_default();
        let help = format!("{key}-help");
        html! {
            p {
                label for=(key) { (self.name) @if self.required { span.soft { " (required)" } } }
                @match &self.value_type {
                    FieldType::Text => { (self.input(&key, &help, value, "text", None)) }
                    FieldType::Integer => { (self.input(&key, &help, value, "number", Some("1"))) }
                    FieldType::Number => { (self.input(&key, &help, value, "number", Some("any"))) }
                    FieldType::Multiline => { (self.textarea(&key, &help, value, 8)) }
                    FieldType::Json => { (self.textarea(&key, &help, value, 4)) }
                    FieldType::Boolean => { (select(&key, &help, value, &["true", "false"], self.required)) }
                    FieldType::Choice(words) => {
                        @let words: Vec<&str> = words.iter().map(String::as_str).collect();
                        (select(&key, &help, value, &words, self.required))
                    }
                }
                span.help id=(help) {
                    (self.help)
                    @if matches!(self.value_type, FieldType::Json) { " Enter JSON." }
                }
            }
        }
    }

    fn input(&self, key: &str, help: &str, value: &str, kind: &str, step: Option<&str>) -> Markup {
        html! {
            input id=(key) name=(key) value=(value) type=(kind) step=[step]
                required[self.required] aria-describedby=(help);
        }
    }

    fn textarea(&self, key: &str, help: &str, value: &str, rows: u32) -> Markup {
        html! {
            textarea id=(key) name=(key) rows=(rows) spellcheck="false" required[self.required]
                aria-describedby=(help) { (value) }
        }
    }

    fn read(&self, form: &Form) -> Result<Option<Value>> {
        let Some(text) = form.verbatim(&self.key()).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let error = |expected: &str| {
            Problem::invalid(format_args!("{}: {text:?} is not {expected}", self.name))
        };
        Ok(Some(match &self.value_type {
            // Browsers send line breaks as CR LF.
            FieldType::Multiline => Value::String(text.replace("\r\n", "\n")),
            FieldType::Text | FieldType::Choice(_) => Value::String(text.to_owned()),
            FieldType::Integer => {
                text.trim().parse::<i64>().map_err(|_| error("a whole number"))?.into()
            }
            FieldType::Number => text.trim().parse::<f64>().map_err(|_| error("a number"))?.into(),
            FieldType::Boolean => {
                text.trim().parse::<bool>().map_err(|_| error("true or false"))?.into()
            }
            FieldType::Json => json(&self.name, text)?.to().map_err(Problem::internal)?,
        }))
    }
}

fn select(key: &str, help: &str, value: &str, words: &[&str], required: bool) -> Markup {
    html! {
        select id=(key) name=(key) aria-describedby=(help) required[required] {
            option value="" { @if required { "Choose…" } @else { "Not set" } }
            @for word in words { option value=(word) selected[*word == value] { (word) } }
        }
    }
}

fn json(name: &str, text: &str) -> Result<RawJson> {
    body::reject_deep(text)?;
    body::reject_duplicate_keys(text)?;
    let invalid_json = |error: serde_json::Error| {
        Problem::new(Code::InvalidJson, format!("{name} is not JSON: {error}"))
    };
    RawJson::from_text(text.trim()).map_err(invalid_json)
}
