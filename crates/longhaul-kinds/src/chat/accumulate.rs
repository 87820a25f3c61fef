//! From the pieces of a streamed answer to the answer as a whole, and back to the pieces that somebody still lacks.
//!
//! Both ends go by it. An attempt gathers what its target says, and the whole becomes the job's result. Whoever
//! streams to a caller gathers what was sent, and gets what is missing from the result at the end: the remaining of a
//! text whose beginning was sent, all of it if nothing was, and a refusal if what was sent is not its beginning.

mod ollama;
mod openai;

use serde_json::{Map, Value};

use super::call::ChatApi;
use ollama::Ollama;
use openai::OpenAi;

/// An answer so far.
#[derive(Debug, Clone)]
pub struct Accumulator(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Ollama(Ollama),
    OpenAi(OpenAi),
}

/// What was sent of an answer is not its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer was made again and begins differently than what was already sent")]
pub struct StreamDiverged;

impl Accumulator {
    /// Nothing yet, of an answer in this API.
    pub fn new(api: ChatApi) -> Self {
        Self(match api {
            ChatApi::OllamaChat => Kind::Ollama(Ollama::new(false)),
            ChatApi::OllamaGenerate => Kind::Ollama(Ollama::new(true)),
            ChatApi::OpenAiChat => Kind::OpenAi(OpenAi::default()),
        })
    }

    /// Adds a piece.
    pub fn add(&mut self, piece: &Value) {
        match &mut self.0 {
            Kind::Ollama(accumulator) => accumulator.add(piece),
            Kind::OpenAi(accumulator) => accumulator.add(piece),
        }
    }

    /// Whether the answer has its end.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            Kind::Ollama(accumulator) => accumulator.is_complete(),
            Kind::OpenAi(accumulator) => accumulator.is_complete(),
        }
    }

    /// The answer as a whole, as somebody gets it who does not stream.
    pub fn body(&self) -> Value {
        match &self.0 {
            Kind::Ollama(accumulator) => accumulator.body(),
            Kind::OpenAi(accumulator) => accumulator.body(),
        }
    }

    /// Tokens that were read and written, as far as the answer tells.
    pub fn tokens(&self) -> (Option<u64>, Option<u64>) {
        match &self.0 {
            Kind::Ollama(accumulator) => accumulator.tokens(),
            Kind::OpenAi(accumulator) => accumulator.tokens(),
        }
    }

    /// The pieces that are missing to this whole answer, its end included. `usage` says whether a caller of
    /// `OpenAI`'s API asked for it.
    pub fn remaining(&self, body: &Value, usage: bool) -> Result<Vec<Value>, StreamDiverged> {
        match &self.0 {
            Kind::Ollama(sent) => sent.remaining(body),
            Kind::OpenAi(sent) => sent.remaining(body, usage),
        }
    }
}

/// Whether a piece belongs to the end of an answer, which is told only once the job has ended.
pub(super) fn is_end(api: ChatApi, piece: &Value) -> bool {
    match api {
        ChatApi::OllamaChat | ChatApi::OllamaGenerate => ollama::is_end(piece),
        ChatApi::OpenAiChat => openai::is_end(piece),
    }
}

/// What is left of a text behind its beginning.
fn behind<'a>(whole: &'a str, sent: &str) -> Result<&'a str, StreamDiverged> {
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
