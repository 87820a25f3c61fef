//! From the pieces of a target's answer to pieces in the caller's API.

mod to_ollama;
mod to_openai;

use serde_json::Value;

use super::call::Api;
use to_ollama::ToOllama;
use to_openai::ToOpenAi;

/// Translates one answer, piece by piece.
#[derive(Debug)]
pub(super) enum Translator {
    /// Both speak the same.
    AsItComes,
    ToOpenAi(ToOpenAi),
    ToOllama(ToOllama),
}

/// A piece in the caller's API: its text is what is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) value: Value,
}

impl Piece {
    fn of(value: Value) -> Self {
        Self { text: value.to_string(), value }
    }
}

impl Translator {
    /// From what a target speaks to what the caller does. `id` is what the answer is known by where it has none.
    pub(super) fn new(target: Api, caller: Api, id: &str, created_s: i64) -> Self {
        match (target, caller) {
            (Api::OllamaChat | Api::OllamaGenerate, Api::OpenAiChat) => {
                Self::ToOpenAi(ToOpenAi::new(id, created_s))
            }
            (Api::OpenAiChat, Api::OllamaChat) => Self::ToOllama(ToOllama::new(false, created_s)),
            (Api::OpenAiChat, Api::OllamaGenerate) => {
                Self::ToOllama(ToOllama::new(true, created_s))
            }
            (Api::OllamaChat | Api::OllamaGenerate, Api::OllamaChat | Api::OllamaGenerate)
            | (Api::OpenAiChat, Api::OpenAiChat) => Self::AsItComes,
        }
    }

    /// What the caller is told for a piece of the target's.
    pub(super) fn take(&mut self, piece: Piece) -> Vec<Piece> {
        match self {
            Self::AsItComes => vec![piece],
            Self::ToOpenAi(to) => to.take(&piece.value).into_iter().map(Piece::of).collect(),
            Self::ToOllama(to) => to.take(&piece.value).into_iter().map(Piece::of).collect(),
        }
    }

    /// What the caller is told when the target has said all.
    pub(super) fn end(&mut self) -> Vec<Piece> {
        match self {
            Self::AsItComes | Self::ToOpenAi(_) => Vec::new(),
            Self::ToOllama(to) => to.end().into_iter().map(Piece::of).collect(),
        }
    }
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
