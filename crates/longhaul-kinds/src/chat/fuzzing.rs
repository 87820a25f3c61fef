//! Fuzz target of streams.

use serde_json::Value;

use super::accumulate::Accumulator;
use super::call::{ChatApi, ChatCall};
use super::error::ChatError;
use super::json_object::JsonObject;
use super::stream_decoder::StreamDecoder;
use super::translate::{StreamChunk, Translator};
use crate::fuzzing::FuzzTarget;

pub(crate) const STREAM: FuzzTarget = (
    "chat-stream",
    stream,
    &[
        b"\x05{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":false}\n{\"done\":true,\"eval_count\":2}\n",
        b"\x01data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        b"\x09data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n",
        b"\x02{\"error\":\"no\"}\n{\"response\":\"Hi\",\"thinking\":\"hm\",\"done\":true}\n",
        b"\x07data: {\"choices\":[{\"index\":0,\"text\":\"Hi\",\"logprobs\":{\"tokens\":[\"Hi\"]},\"finish_reason\":\"stop\"}]}\n\n",
        b"\x07data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"Hi\",\"sequence_number\":1}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"}]}]}}\n\n",
        b"\x09{\"embeddings\":[[0.5,1e300]],\"data\":[{\"embedding\":[0.5]}],\"prompt_eval_count\":3}",
    ],
);

/// The chunk size makes no difference, and in every API the remaining chunks complete any prefix of the response
/// exactly once.
fn stream(bytes: &[u8]) {
    let Some((size, stream)) = bytes.split_first() else { return };
    drop(ChatError::from_response("t", 500, stream, None).to_string());
    let callers = |target| ChatApi::ALL.map(|caller| (target, caller));
    for (target, caller) in ChatApi::ALL.into_iter().flat_map(callers) {
        let whole = lines(target, std::iter::once(stream));
        let cut = stream.chunks(usize::from(*size).max(1));
        assert_eq!(lines(target, cut), whole, "in pieces of {size}");
        let mut translator =
            Translator::new(target, &ChatCall::new(caller, JsonObject::default()), "1", 1);
        let mut pieces: Vec<Value> = Vec::new();
        for text in whole {
            let Ok(value) = serde_json::from_str(&text) else { continue };
            let translated = translator.take(StreamChunk { text, value });
            pieces.extend(translated.into_iter().map(|piece| piece.value));
        }
        pieces.extend(translator.end().into_iter().map(|piece| piece.value));
        check_remaining(caller, &pieces);
    }
}

fn lines<'a>(api: ChatApi, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut lines = StreamDecoder::new(api, false, usize::MAX);
    let mut all: Vec<String> =
        pieces.flat_map(|piece| lines.push(piece).unwrap_or_default()).collect();
    all.extend(lines.end());
    all
}

fn check_remaining(api: ChatApi, pieces: &[Value]) {
    let mut whole = Accumulator::new(api);
    for piece in pieces {
        whole.add(piece);
    }
    if !whole.is_complete() {
        return;
    }
    let body = whole.body();
    let mut from_nothing = Accumulator::new(api);
    for piece in Accumulator::new(api).remaining(&body, true).unwrap_or_default() {
        from_nothing.add(&piece);
    }
    assert!(from_nothing.is_complete(), "{body}");
    assert_eq!(from_nothing.remaining(&body, false), Ok(Vec::new()), "{body}");
}
