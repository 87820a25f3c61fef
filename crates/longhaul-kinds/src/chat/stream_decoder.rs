//! From the bytes of a streamed answer to its events.

use super::call::ChatApi;

/// The longest line that is read: a line holds at least one token, and at most a whole answer.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Cuts a stream into JSON texts: lines of NDJSON, or the data of server-sent events.
#[derive(Debug)]
pub(super) struct StreamDecoder {
    form: Form,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    StreamDecoder,
    Events,
    /// One text, whatever its lines are: of a target that does not stream though it was asked to.
    Whole,
}

/// A line that goes on for ever.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a line of the answer has more than {LINE_BYTES_MAX} bytes")]
pub(super) struct LineTooLong;

impl StreamDecoder {
    /// As this API streams; `is_json` says that the answer is one text instead.
    pub(super) fn new(api: ChatApi, is_json: bool) -> Self {
        let form = match api {
            ChatApi::OllamaChat | ChatApi::OllamaGenerate => Form::StreamDecoder,
            ChatApi::OpenAiChat if is_json => Form::Whole,
            ChatApi::OpenAiChat => Form::Events,
        };
        Self { form, buffer: Vec::new() }
    }

    /// The JSON texts that are whole with these bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, LineTooLong> {
        self.buffer.extend_from_slice(bytes);
        let end = match self.form {
            Form::StreamDecoder | Form::Events => {
                self.buffer.iter().rposition(|byte| *byte == b'\n')
            }
            Form::Whole => None,
        };
        let Some(end) = end else {
            return if self.buffer.len() > LINE_BYTES_MAX {
                Err(LineTooLong)
            } else {
                Ok(Vec::new())
            };
        };
        let remaining = self.buffer.split_off(end + 1);
        let whole = std::mem::replace(&mut self.buffer, remaining);
        Ok(self.texts(&whole))
    }

    /// What is left when the stream ends without a last line break.
    pub(super) fn end(&mut self) -> Vec<String> {
        let left = std::mem::take(&mut self.buffer);
        self.texts(&left)
    }

    fn texts(&self, lines: &[u8]) -> Vec<String> {
        let breaks = |byte: &u8| *byte == b'\n' && !matches!(self.form, Form::Whole);
        let lines = lines.split(breaks).map(String::from_utf8_lossy);
        lines.filter_map(|line| self.text(&line).map(str::to_owned)).collect()
    }

    fn text<'a>(&self, line: &'a str) -> Option<&'a str> {
        let text = match self.form {
            Form::StreamDecoder | Form::Whole => line.trim(),
            // Comments keep a connection alive; names, ids and delays of events mean nothing here.
            Form::Events => line.trim().strip_prefix("data:")?.trim_start(),
        };
        Some(text).filter(|text| !text.is_empty() && *text != "[DONE]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_are_told_from_comments_and_the_end() {
        let mut lines = StreamDecoder::new(ChatApi::OpenAiChat, false);
        let text = ": hello\n\nevent: x\ndata: {\"a\":1}\r\n\r\ndata:{\"b\":2}\n\ndata: [DONE]\n\n";
        assert_eq!(lines.push(text.as_bytes()).unwrap(), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert!(lines.end().is_empty());
    }

    #[test]
    fn last_line_needs_no_line_break() {
        let mut lines = StreamDecoder::new(ChatApi::OllamaChat, false);
        assert_eq!(lines.push(b"{\"a\":1}\n{\"b\"").unwrap(), [r#"{"a":1}"#]);
        assert!(lines.push(b":2}").unwrap().is_empty());
        assert_eq!(lines.end(), [r#"{"b":2}"#]);
    }

    #[test]
    fn answer_that_is_not_streamed_is_one_text() {
        let mut lines = StreamDecoder::new(ChatApi::OpenAiChat, true);
        assert!(lines.push(b"{\n  \"a\":").unwrap().is_empty());
        assert!(lines.push(b" 1\n}\n").unwrap().is_empty());
        assert_eq!(lines.end(), ["{\n  \"a\": 1\n}"]);
    }

    #[test]
    fn endless_line_is_refused() {
        let mut lines = StreamDecoder::new(ChatApi::OllamaChat, false);
        let mebibyte = vec![b'x'; 1024 * 1024];
        let refused = (0..17).find_map(|_| lines.push(&mebibyte).err());
        assert_eq!(refused, Some(LineTooLong));
    }

    proptest! {
        #[test]
        fn cuts_between_reads_change_nothing(words in proptest::collection::vec("[a-zä ]{0,9}", 0..9), cuts in proptest::collection::vec(1usize..9, 0..40)) {
            let texts: Vec<String> = words.iter().map(|word| format!("{{\"w\":{word:?}}}")).collect();
            let stream = texts.join("\n");
            let (mut lines, mut read, mut remaining) = (StreamDecoder::new(ChatApi::OllamaChat, false), Vec::new(), stream.as_bytes());
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
        fn any_bytes_are_read(bytes: Vec<u8>) {
            for api in [ChatApi::OllamaChat, ChatApi::OpenAiChat] {
                let mut lines = StreamDecoder::new(api, false);
                lines.push(&bytes).unwrap();
                lines.end();
            }
        }
    }
}
