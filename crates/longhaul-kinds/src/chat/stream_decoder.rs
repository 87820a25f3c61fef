//! Decodes NDJSON and server-sent events into JSON texts.

use super::call::ChatApi;
use super::target::TargetApi;

/// Bytes of a line, which has one token or a few.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Splits a stream into JSON texts.
#[derive(Debug)]
pub(super) struct StreamDecoder {
    format: StreamFormat,
    /// Bytes of one JSON text.
    text_bytes_max: usize,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum StreamFormat {
    Lines,
    Events,
    /// One JSON text, of a target that does not stream despite the request.
    Whole,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a line of the response has more than {bytes_max} bytes")]
pub(super) struct LineTooLong {
    pub(super) bytes_max: usize,
}

impl StreamDecoder {
    /// Creates a decoder for this API. `is_json` is set if the response is one JSON text, of at most
    /// `response_bytes_max`.
    pub(super) fn new(api: ChatApi, is_json: bool, response_bytes_max: usize) -> Self {
        let format = match api.target_api() {
            _ if !api.can_stream() => StreamFormat::Whole,
            TargetApi::Ollama => StreamFormat::Lines,
            TargetApi::OpenAi if is_json => StreamFormat::Whole,
            TargetApi::OpenAi => StreamFormat::Events,
        };
        let text_bytes_max = match format {
            // Its last event has the whole response.
            StreamFormat::Events if api == ChatApi::OpenAiResponses => response_bytes_max,
            StreamFormat::Lines | StreamFormat::Events => LINE_BYTES_MAX.min(response_bytes_max),
            StreamFormat::Whole => response_bytes_max,
        };
        Self { format, text_bytes_max, buffer: Vec::new() }
    }

    /// Returns the JSON texts that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, LineTooLong> {
        self.buffer.extend_from_slice(bytes);
        let end = match self.format {
            StreamFormat::Lines | StreamFormat::Events => {
                self.buffer.iter().rposition(|byte| *byte == b'\n')
            }
            StreamFormat::Whole => None,
        };
        let remaining = match end {
            Some(end) => self.buffer.split_off(end + 1),
            None => std::mem::take(&mut self.buffer),
        };
        let whole = std::mem::replace(&mut self.buffer, remaining);
        let bytes_max = self.text_bytes_max;
        let is_short = |line: &[u8]| line.len() <= bytes_max;
        if !is_short(&self.buffer) || !whole.split(|byte| *byte == b'\n').all(is_short) {
            return Err(LineTooLong { bytes_max });
        }
        Ok(self.texts(&whole))
    }

    /// Returns the rest of a stream without a final newline.
    pub(super) fn end(&mut self) -> Vec<String> {
        let left = std::mem::take(&mut self.buffer);
        self.texts(&left)
    }

    fn texts(&self, lines: &[u8]) -> Vec<String> {
        let breaks = |byte: &u8| *byte == b'\n' && !matches!(self.format, StreamFormat::Whole);
        let lines = lines.split(breaks).map(String::from_utf8_lossy);
        lines.filter_map(|line| self.text(&line).map(str::to_owned)).collect()
    }

    fn text<'a>(&self, line: &'a str) -> Option<&'a str> {
        let text = match self.format {
            StreamFormat::Lines | StreamFormat::Whole => line.trim(),
            // Comments are keep-alives; event names, ids and retry delays are ignored.
            StreamFormat::Events => line.trim().strip_prefix("data:")?.trim_start(),
        };
        Some(text).filter(|text| !text.is_empty() && *text != "[DONE]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sse_comments_and_done_are_skipped() {
        let mut lines = StreamDecoder::new(ChatApi::OpenAiChat, false, LINE_BYTES_MAX);
        let text = ": hello\n\nevent: x\ndata: {\"a\":1}\r\n\r\ndata:{\"b\":2}\n\ndata: [DONE]\n\n";
        assert_eq!(lines.push(text.as_bytes()).unwrap(), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert!(lines.end().is_empty());
    }

    #[test]
    fn last_line_needs_no_newline() {
        let mut lines = StreamDecoder::new(ChatApi::OllamaChat, false, LINE_BYTES_MAX);
        assert_eq!(lines.push(b"{\"a\":1}\n{\"b\"").unwrap(), [r#"{"a":1}"#]);
        assert!(lines.push(b":2}").unwrap().is_empty());
        assert_eq!(lines.end(), [r#"{"b":2}"#]);
    }

    #[test]
    fn unstreamed_response_is_one_text() {
        let mut lines = StreamDecoder::new(ChatApi::OpenAiChat, true, LINE_BYTES_MAX);
        assert!(lines.push(b"{\n  \"a\":").unwrap().is_empty());
        assert!(lines.push(b" 1\n}\n").unwrap().is_empty());
        assert_eq!(lines.end(), ["{\n  \"a\": 1\n}"]);
    }

    #[test]
    fn endless_line_is_rejected() {
        let mut lines = StreamDecoder::new(ChatApi::OllamaChat, false, LINE_BYTES_MAX);
        assert!(lines.push(&vec![b'x'; LINE_BYTES_MAX]).unwrap().is_empty());
        assert_eq!(lines.push(b"x"), Err(LineTooLong { bytes_max: LINE_BYTES_MAX }));
        let mut lines = StreamDecoder::new(ChatApi::OllamaChat, false, 9);
        assert_eq!(lines.push(b"{}\n0123456789\n"), Err(LineTooLong { bytes_max: 9 }));
    }

    proptest! {
        #[test]
        fn stream_decoding_does_not_depend_on_chunk_sizes(words in proptest::collection::vec("[a-zä ]{0,9}", 0..9), cuts in proptest::collection::vec(1usize..9, 0..40)) {
            let texts: Vec<String> = words.iter().map(|word| format!("{{\"w\":{word:?}}}")).collect();
            let stream = texts.join("\n");
            let (mut lines, mut read, mut remaining) = (StreamDecoder::new(ChatApi::OllamaChat, false, LINE_BYTES_MAX), Vec::new(), stream.as_bytes());
            for cut in cuts {
                let (now, later) = remaining.split_at(cut.min(remaining.len()));
                read.extend(lines.push(now).unwrap());
                remaining = later;
            }
            read.extend(lines.push(remaining).unwrap());
            read.extend(lines.end());
            prop_assert_eq!(read, texts);
        }

        #[test]
        fn stream_decoder_never_panics(bytes: Vec<u8>) {
            for api in [ChatApi::OllamaChat, ChatApi::OpenAiChat] {
                let mut lines = StreamDecoder::new(api, false, LINE_BYTES_MAX);
                lines.push(&bytes).unwrap();
                lines.end();
            }
        }
    }
}
