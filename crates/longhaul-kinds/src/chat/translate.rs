//! Translates stream chunks of a target to the caller's API.

mod embeddings;
mod to_ollama;
mod to_openai;

use serde_json::Value;

use super::call::{ChatApi, ChatCall};
use embeddings::EmbeddingsFormat;
use to_ollama::ToOllama;
use to_openai::ToOpenAi;

#[derive(Debug)]
pub(super) enum Translator {
    Unchanged,
    ToOpenAi(ToOpenAi),
    ToOllama(ToOllama),
    Embeddings(EmbeddingsFormat),
}

/// Chunk with its JSON text, which is sent verbatim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamChunk {
    pub(super) text: String,
    pub(super) value: Value,
}

impl StreamChunk {
    fn new(value: Value) -> Self {
        Self { text: value.to_string(), value }
    }
}

impl Translator {
    /// Creates a translator from the target's API to the caller's. `id` is used for responses without an id.
    pub(super) fn new(target: ChatApi, call: &ChatCall, id: &str, created_s: i64) -> Self {
        if target == call.api {
            return Self::Unchanged;
        }
        match call.api {
            ChatApi::OpenAiChat => Self::ToOpenAi(ToOpenAi::new(false, id, created_s)),
            ChatApi::OpenAiCompletions => Self::ToOpenAi(ToOpenAi::new(true, id, created_s)),
            ChatApi::OllamaChat => Self::ToOllama(ToOllama::new(false, created_s)),
            ChatApi::OllamaGenerate => Self::ToOllama(ToOllama::new(true, created_s)),
            ChatApi::OllamaEmbed => Self::Embeddings(EmbeddingsFormat::Ollama),
            ChatApi::OllamaEmbeddings => Self::Embeddings(EmbeddingsFormat::OllamaSingle),
            ChatApi::OpenAiEmbeddings => {
                let format: Option<String> = call.body.get("encoding_format");
                let base64 = format.is_some_and(|format| format == "base64");
                Self::Embeddings(EmbeddingsFormat::OpenAi { base64 })
            }
            ChatApi::OpenAiResponses => Self::Unchanged,
        }
    }

    pub(super) fn take(&mut self, chunk: StreamChunk) -> Vec<StreamChunk> {
        match self {
            Self::Unchanged => vec![chunk],
            Self::ToOpenAi(to) => to.take(&chunk.value).into_iter().map(StreamChunk::new).collect(),
            Self::ToOllama(to) => to.take(&chunk.value).into_iter().map(StreamChunk::new).collect(),
            Self::Embeddings(format) => vec![StreamChunk::new(format.translate(&chunk.value))],
        }
    }

    /// Returns the chunks after the last one of the target.
    pub(super) fn end(&mut self) -> Vec<StreamChunk> {
        match self {
            Self::Unchanged | Self::ToOpenAi(_) | Self::Embeddings(_) => Vec::new(),
            Self::ToOllama(to) => to.end().into_iter().map(StreamChunk::new).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
