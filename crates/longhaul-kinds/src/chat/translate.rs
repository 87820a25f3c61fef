//! From the pieces of a target's answer to pieces in the caller's API.

mod to_ollama;
mod to_openai;

use serde_json::Value;

use super::call::ChatApi;
use to_ollama::ToOllama;
use to_openai::ToOpenAi;

/// Translates one answer, piece by piece.
#[derive(Debug)]
pub(super) enum Translator {
    /// Both speak the same.
    Unchanged,
    ToOpenAi(ToOpenAi),
    ToOllama(ToOllama),
}

/// A piece in the caller's API: its text is what is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamChunk {
    pub(super) text: String,
    pub(super) value: Value,
}

impl StreamChunk {
    fn of(value: Value) -> Self {
        Self { text: value.to_string(), value }
    }
}

impl Translator {
    /// From what a target api to what the caller does. `id` is what the answer is known by where it has none.
    pub(super) fn new(target: ChatApi, caller: ChatApi, id: &str, created_s: i64) -> Self {
        match (target, caller) {
            (ChatApi::OllamaChat | ChatApi::OllamaGenerate, ChatApi::OpenAiChat) => {
                Self::ToOpenAi(ToOpenAi::new(id, created_s))
            }
            (ChatApi::OpenAiChat, ChatApi::OllamaChat) => {
                Self::ToOllama(ToOllama::new(false, created_s))
            }
            (ChatApi::OpenAiChat, ChatApi::OllamaGenerate) => {
                Self::ToOllama(ToOllama::new(true, created_s))
            }
            (
                ChatApi::OllamaChat | ChatApi::OllamaGenerate,
                ChatApi::OllamaChat | ChatApi::OllamaGenerate,
            )
            | (ChatApi::OpenAiChat, ChatApi::OpenAiChat) => Self::Unchanged,
        }
    }

    /// What the caller is told for a piece of the target's.
    pub(super) fn take(&mut self, piece: StreamChunk) -> Vec<StreamChunk> {
        match self {
            Self::Unchanged => vec![piece],
            Self::ToOpenAi(to) => to.take(&piece.value).into_iter().map(StreamChunk::of).collect(),
            Self::ToOllama(to) => to.take(&piece.value).into_iter().map(StreamChunk::of).collect(),
        }
    }

    /// What the caller is told when the target has said all.
    pub(super) fn end(&mut self) -> Vec<StreamChunk> {
        match self {
            Self::Unchanged | Self::ToOpenAi(_) => Vec::new(),
            Self::ToOllama(to) => to.end().into_iter().map(StreamChunk::of).collect(),
        }
    }
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
