//! From a kind's schema to the fields of a form, and from what was filled in to an input.

use longhaul::Kind;
use longhaul_client::wire::RawJson;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::api::http::body;
use crate::dashboard::form::{Form, invalid};
use crate::problem::{Code, Problem};

/// The one field of a kind that does not say what its input looks like.
const WHOLE: &str = "input";

/// What can be filled in.
pub(super) enum Inputs {
    Fields(Vec<Field>),
    Whole { example: String },
}

pub(super) struct Field {
    name: String,
    help: String,
    required: bool,
    shape: Shape,
}

enum Shape {
    Line,
    Text,
    Whole,
    Number,
    Truth,
    OneOf(Vec<String>),
    Json,
}

impl Inputs {
    /// The fields that the kind's schema names, unless JSON is asked for.
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
            return Self::Whole { example: example.unwrap_or_else(|| "{}".to_owned()) };
        };
        let required = schema.as_ref().and_then(|schema| schema["required"].as_array());
        let is_required = |name: &str| {
            required.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let field = |(name, schema): (&String, &Value)| Field {
            name: name.clone(),
            help: schema["description"].as_str().unwrap_or_default().to_owned(),
            required: is_required(name),
            shape: Shape::of(schema),
        };
        Self::Fields(properties.iter().map(field).collect())
    }

    pub(super) fn has_fields(&self) -> bool {
        matches!(self, Self::Fields(_))
    }

    pub(super) fn write(&self, form: &Form) -> Markup {
        match self {
            Self::Fields(fields) => html! { @for field in fields { (field.write(form)) } },
            Self::Whole { example } => {
                let written = form.verbatim(WHOLE).unwrap_or(example);
                html! {
                    input type="hidden" name="as" value="json";
                    p {
                        label for=(WHOLE) { "Input" }
                        textarea #(WHOLE) name=(WHOLE) rows="10" spellcheck="false"
                            aria-describedby="input-help" {
                            (written)
                        }
                        span #input-help.help { "Any JSON." }
                    }
                }
            }
        }
    }

    /// The input that was filled in. What was left empty is left out.
    pub(super) fn read(&self, form: &Form) -> Result<RawJson, Problem> {
        let fields = match self {
            Self::Whole { .. } => return json(WHOLE, form.verbatim(WHOLE).unwrap_or("null")),
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

impl Shape {
    fn of(schema: &Value) -> Self {
        if let Some(words) = schema["enum"].as_array() {
            return Self::OneOf(
                words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            );
        }
        match (schema["type"].as_str(), schema["format"].as_str()) {
            (Some("string"), Some("text")) => Self::Text,
            (Some("string"), _) => Self::Line,
            (Some("integer"), _) => Self::Whole,
            (Some("number"), _) => Self::Number,
            (Some("boolean"), _) => Self::Truth,
            (_, _) => Self::Json,
        }
    }
}

impl Field {
    /// Its name in the form: a field of an input may be called like one of ours.
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
                @match &self.shape {
                    Shape::Line => { (self.line(&key, &help, value, "text", None)) }
                    Shape::Whole => { (self.line(&key, &help, value, "number", Some("1"))) }
                    Shape::Number => { (self.line(&key, &help, value, "number", Some("any"))) }
                    Shape::Text => { (self.area(&key, &help, value, 8)) }
                    Shape::Json => { (self.area(&key, &help, value, 4)) }
                    Shape::Truth => { (choice(&key, &help, value, &["true", "false"], self.required)) }
                    Shape::OneOf(words) => {
                        @let words: Vec<&str> = words.iter().map(String::as_str).collect();
                        (choice(&key, &help, value, &words, self.required))
                    }
                }
                span.help id=(help) {
                    (self.help)
                    @if matches!(self.shape, Shape::Json) { " As JSON." }
                }
            }
        }
    }

    fn line(&self, key: &str, help: &str, value: &str, kind: &str, step: Option<&str>) -> Markup {
        html! {
            input id=(key) name=(key) value=(value) type=(kind) step=[step]
                required[self.required] aria-describedby=(help);
        }
    }

    fn area(&self, key: &str, help: &str, value: &str, rows: u32) -> Markup {
        html! {
            textarea id=(key) name=(key) rows=(rows) spellcheck="false" required[self.required]
                aria-describedby=(help) { (value) }
        }
    }

    fn read(&self, form: &Form) -> Result<Option<Value>, Problem> {
        let Some(text) = form.verbatim(&self.key()).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let wrong = |what: &str| invalid(format!("{}: {text:?} is not {what}", self.name));
        Ok(Some(match &self.shape {
            // Browsers send every line break as two characters.
            Shape::Text => Value::String(text.replace("\r\n", "\n")),
            Shape::Line | Shape::OneOf(_) => Value::String(text.to_owned()),
            Shape::Whole => text.trim().parse::<i64>().map_err(|_| wrong("a whole number"))?.into(),
            Shape::Number => text.trim().parse::<f64>().map_err(|_| wrong("a number"))?.into(),
            Shape::Truth => text.trim().parse::<bool>().map_err(|_| wrong("true or false"))?.into(),
            Shape::Json => json(&self.name, text)?.to().map_err(Problem::internal)?,
        }))
    }
}

fn choice(key: &str, help: &str, value: &str, words: &[&str], required: bool) -> Markup {
    html! {
        select id=(key) name=(key) aria-describedby=(help) required[required] {
            option value="" { @if required { "choose…" } @else { "not given" } }
            @for word in words { option value=(word) selected[*word == value] { (word) } }
        }
    }
}

fn json(name: &str, text: &str) -> Result<RawJson, Problem> {
    body::refuse_deep(text)?;
    body::refuse_doubled_keys(text)?;
    let wrong = |error: serde_json::Error| {
        Problem::new(Code::InvalidJson, format!("{name} is not JSON: {error}"))
    };
    RawJson::from_text(text.trim()).map_err(wrong)
}
