//! Translates responses with embeddings. They are not streamed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::chat::json_fields::{items, object, text};

/// Format of a caller that differs from the target's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::chat) enum EmbeddingsFormat {
    /// `/api/embed`
    Ollama,
    /// `/api/embeddings`: the embedding of one text.
    OllamaSingle,
    /// `/v1/embeddings`, as numbers or as the base64 of little-endian 32-bit floats.
    OpenAi { base64: bool },
}

impl EmbeddingsFormat {
    pub(super) fn translate(self, response: &Value) -> Value {
        match self {
            Self::Ollama => {
                let embeddings: Vec<Value> = openai_embeddings(response).cloned().collect();
                let tokens = response.pointer("/usage/prompt_tokens").cloned();
                object([
                    ("model", Some(text(response, "model").into())),
                    ("embeddings", Some(embeddings.into())),
                    ("prompt_eval_count", tokens),
                ])
            }
            Self::OllamaSingle => {
                let first = openai_embeddings(response).next();
                json!({"embedding": first.cloned().unwrap_or_else(|| json!([]))})
            }
            Self::OpenAi { base64 } => {
                let data = items(response, "embeddings").iter().enumerate();
                let data: Vec<Value> = data
                    .map(|(index, numbers)| {
                        let embedding = if base64 { encoded(numbers) } else { numbers.clone() };
                        json!({"object": "embedding", "index": index, "embedding": embedding})
                    })
                    .collect();
                let tokens = response.get("prompt_eval_count").and_then(Value::as_u64);
                let tokens = tokens.unwrap_or_default();
                json!({
                    "object": "list",
                    "data": data,
                    "model": text(response, "model"),
                    "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                })
            }
        }
    }
}

fn openai_embeddings(response: &Value) -> impl Iterator<Item = &Value> {
    items(response, "data").iter().filter_map(|one| one.get("embedding"))
}

#[expect(clippy::cast_possible_truncation, reason = "the format has 32-bit floats")]
fn encoded(numbers: &Value) -> Value {
    let numbers = numbers.as_array().map(Vec::as_slice).unwrap_or_default();
    let floats = numbers.iter().map(|number| number.as_f64().unwrap_or_default() as f32);
    let bytes: Vec<u8> = floats.flat_map(f32::to_le_bytes).collect();
    STANDARD.encode(bytes).into()
}
