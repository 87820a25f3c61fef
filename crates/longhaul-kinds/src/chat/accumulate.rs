//! Accumulates stream chunks into a response, and computes the chunks that are missing.
//!
//! An attempt accumulates the chunks of its target into the job's result. The API accumulates the chunks that
//! it has sent to a caller, and computes the missing ones from the result at the end. It fails if the sent text
//! is not a prefix of the result.

mod ollama;
mod openai;
mod response_events;
mod whole_response;

use std::fmt;

use serde_json::Value;

use super::call::ChatApi;
use ollama::Ollama;
pub(super) use ollama::line as ollama_line;
use openai::OpenAi;
use response_events::ResponseEvents;
use whole_response::WholeResponse;

/// Response assembled from chunks.
#[derive(Debug)]
pub struct Accumulator(Box<dyn Accumulate>);

trait Accumulate: fmt::Debug + Send + Sync {
    fn add(&mut self, chunk: &Value);
    fn is_end(&self, chunk: &Value) -> bool;
    fn is_complete(&self) -> bool;
    fn body(&self) -> Value;
    fn size(&self) -> usize;
    fn tokens(&self) -> (Option<u64>, Option<u64>);
    fn remaining(&self, body: &Value, usage: bool) -> Result<Vec<Value>, StreamDiverged>;
}

/// The sent chunks are not a prefix of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response was generated again and differs from the part that was already sent")]
pub struct StreamDiverged;

impl Accumulator {
    pub fn new(api: ChatApi) -> Self {
        Self(match api {
            ChatApi::OllamaChat => Box::new(Ollama::new(false)),
            ChatApi::OllamaGenerate => Box::new(Ollama::new(true)),
            ChatApi::OpenAiChat => Box::new(OpenAi::new(false)),
            ChatApi::OpenAiCompletions => Box::new(OpenAi::new(true)),
            ChatApi::OpenAiResponses => Box::new(ResponseEvents::default()),
            ChatApi::OllamaEmbed | ChatApi::OllamaEmbeddings | ChatApi::OpenAiEmbeddings => {
                Box::new(WholeResponse::default())
            }
        })
    }

    pub fn add(&mut self, chunk: &Value) {
        self.0.add(chunk);
    }

    /// Returns true for a final chunk, which is sent only after the job has finished.
    pub(super) fn is_end(&self, chunk: &Value) -> bool {
        self.0.is_end(chunk)
    }

    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Returns the body of a response that is not streamed.
    pub fn body(&self) -> Value {
        self.0.body()
    }

    /// Returns the approximate size of the response so far.
    pub(super) fn size(&self) -> usize {
        self.0.size()
    }

    /// Returns prompt and completion tokens, if the target reported them.
    pub fn tokens(&self) -> (Option<u64>, Option<u64>) {
        self.0.tokens()
    }

    /// Returns the chunks that are missing to this response body, including the final one. `usage` is set if a
    /// caller of `OpenAI`'s API requested usage.
    pub fn remaining(&self, body: &Value, usage: bool) -> Result<Vec<Value>, StreamDiverged> {
        self.0.remaining(body, usage)
    }
}

fn suffix<'a>(whole: &'a str, sent: &str) -> Result<&'a str, StreamDiverged> {
    whole.strip_prefix(sent).ok_or(StreamDiverged)
}

#[cfg(test)]
mod tests;
