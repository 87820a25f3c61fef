//! Accumulates stream chunks into a response, and computes the chunks that are missing.
//!
//! An attempt accumulates the chunks of its target into the job's result. A gateway accumulates the chunks that
//! it has sent to a caller, and computes the missing ones from the result at the end. It fails if the sent text
//! is not a prefix of the result.

mod ollama;
mod openai;

use serde_json::{Map, Value};

use super::call::ChatApi;
use ollama::Ollama;
use openai::OpenAi;

/// Response assembled from chunks.
#[derive(Debug, Clone)]
pub struct Accumulator(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Ollama(Ollama),
    OpenAi(OpenAi),
}

/// The sent chunks are not a prefix of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response was generated again and differs from the part that was already sent")]
pub struct StreamDiverged;

impl Accumulator {
    pub fn new(api: ChatApi) -> Self {
        Self(match api {
            ChatApi::OllamaChat => Kind::Ollama(Ollama::new(false)),
            ChatApi::OllamaGenerate => Kind::Ollama(Ollama::new(true)),
            ChatApi::OpenAiChat => Kind::OpenAi(OpenAi::default()),
        })
    }

    pub fn add(&mut self, piece: &Value) {
        match &mut self.0 {
            Kind::Ollama(accumulator) => accumulator.add(piece),
            Kind::OpenAi(accumulator) => accumulator.add(piece),
        }
    }

    pub fn is_complete(&self) -> bool {
        match &self.0 {
            Kind::Ollama(accumulator) => accumulator.is_complete(),
            Kind::OpenAi(accumulator) => accumulator.is_complete(),
        }
    }

    /// Returns the body of a response that is not streamed.
    pub fn body(&self) -> Value {
        match &self.0 {
            Kind::Ollama(accumulator) => accumulator.body(),
            Kind::OpenAi(accumulator) => accumulator.body(),
        }
    }

    /// Returns prompt and completion tokens, if the target reported them.
    pub fn tokens(&self) -> (Option<u64>, Option<u64>) {
        match &self.0 {
            Kind::Ollama(accumulator) => accumulator.tokens(),
            Kind::OpenAi(accumulator) => accumulator.tokens(),
        }
    }

    /// Returns the chunks that are missing to this response body, including the final one. `usage` is set if a
    /// caller of `OpenAI`'s API requested usage.
    pub fn remaining(&self, body: &Value, usage: bool) -> Result<Vec<Value>, StreamDiverged> {
        match &self.0 {
            Kind::Ollama(sent) => sent.remaining(body),
            Kind::OpenAi(sent) => sent.remaining(body, usage),
        }
    }
}

/// Returns true for a final chunk, which is sent only after the job has finished.
pub(super) fn is_end(api: ChatApi, piece: &Value) -> bool {
    match api {
        ChatApi::OllamaChat | ChatApi::OllamaGenerate => ollama::is_end(piece),
        ChatApi::OpenAiChat => openai::is_end(piece),
    }
}

fn suffix<'a>(whole: &'a str, sent: &str) -> Result<&'a str, StreamDiverged> {
    whole.strip_prefix(sent).ok_or(StreamDiverged)
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests;
