//! Responses that are one JSON text: embeddings.

use serde_json::Value;

use super::{Accumulate, StreamDiverged};
use crate::chat::json_fields::size;

#[derive(Debug, Default)]
pub(super) struct WholeResponse {
    response: Option<Value>,
}

impl Accumulate for WholeResponse {
    fn add(&mut self, response: &Value) {
        self.response = Some(response.clone());
    }

    fn is_end(&self, _response: &Value) -> bool {
        true
    }

    fn is_complete(&self) -> bool {
        self.response.is_some()
    }

    fn body(&self) -> Value {
        self.response.clone().unwrap_or_default()
    }

    fn size(&self) -> usize {
        self.response.as_ref().map_or(0, size)
    }

    fn tokens(&self) -> (Option<u64>, Option<u64>) {
        let response = self.response.as_ref();
        let count = |pointer| response?.pointer(pointer)?.as_u64();
        (count("/usage/prompt_tokens").or_else(|| count("/prompt_eval_count")), None)
    }

    fn remaining(&self, body: &Value, _usage: bool) -> Result<Vec<Value>, StreamDiverged> {
        Ok(if self.is_complete() { Vec::new() } else { vec![body.clone()] })
    }
}
