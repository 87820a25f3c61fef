//! The stream under hyper. Replaces hyper's empty error responses by problem details.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::stream::MaybeTlsStream;
use crate::problem::{Code, PROBLEM_JSON, Problem};
use crate::request_id::RequestId;
use crate::security_headers;

/// Upper bound on the size of hyper's error responses: a status line, three fields and no body.
const ERROR_BYTES_MAX: usize = 256;

/// Delays writes that look like one of hyper's own error responses.
///
/// hyper responds to a malformed request by itself, with an empty body and no hook to change it. A
/// write that looks like such a response is buffered until hyper reads or writes again, which it
/// never does after an error, and is then sent unchanged; or until the connection ends with a parse
/// error, and then problem details are sent in its place.
pub(super) struct HyperIo {
    stream: MaybeTlsStream,
    delayed: Vec<u8>,
}

impl HyperIo {
    pub(super) fn new(stream: MaybeTlsStream) -> Self {
        Self { stream, delayed: Vec::new() }
    }

    /// Writes the delayed bytes unchanged.
    pub(super) async fn flush_delayed(&mut self) -> io::Result<()> {
        let delayed = std::mem::take(&mut self.delayed);
        self.write_all(&delayed).await
    }

    /// Writes problem details in place of hyper's error response.
    pub(super) async fn replace_delayed(&mut self) -> io::Result<()> {
        let Some(code) = error_code(&self.delayed) else { return self.flush_delayed().await };
        self.delayed.clear();
        let problem = Problem::new(code, "the request's head is malformed");
        let response = encode_response(&problem, &RequestId::fresh());
        // Not delayed again, because it has a body.
        self.write_all(&response).await
    }

    fn poll_delayed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.delayed.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.delayed.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.delayed))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => drop(self.delayed.drain(..written)),
            }
        }
        // hyper assumes that these bytes are flushed.
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

impl AsyncRead for HyperIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.poll_delayed(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for HyperIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_delayed(cx))?;
        let mut filled = bufs.iter().filter(|buf| !buf.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next())
            && error_code(only).is_some()
        {
            self.delayed.extend_from_slice(only);
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Keeps the delayed bytes, because hyper flushes after each response.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_delayed(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns the problem code for bytes that could be one of hyper's error responses.
fn error_code(bytes: &[u8]) -> Option<Code> {
    if bytes.len() > ERROR_BYTES_MAX {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let (status, fields) = head.strip_prefix("HTTP/1.")?.split_once("\r\n")?;
    if !fields.split("\r\n").any(|field| field == "content-length: 0") {
        return None;
    }
    match status.split(' ').nth(1)?.parse::<StatusCode>().ok()? {
        StatusCode::BAD_REQUEST => Some(Code::BadRequest),
        StatusCode::URI_TOO_LONG => Some(Code::UriTooLong),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Some(Code::HeadersTooLarge),
        _ => None,
    }
}

/// Encodes a complete response with `Connection: close`, for use outside of hyper.
pub(super) fn encode_response(problem: &Problem, id: &RequestId) -> Vec<u8> {
    let body = problem.to_json(id.as_str());
    let mut response = format!(
        "HTTP/1.1 {}\r\nx-request-id: {id}\r\ncontent-length: {}\r\nconnection: close\r\n",
        problem.status(),
        body.len()
    )
    .into_bytes();
    let mut fields = problem.headers().clone();
    fields.insert(CONTENT_TYPE, PROBLEM_JSON);
    security_headers::complete(&mut fields, false);
    for (name, value) in &fields {
        response.extend_from_slice(name.as_str().as_bytes());
        response.extend_from_slice(b": ");
        response.extend_from_slice(value.as_bytes());
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"\r\n");
    response.extend_from_slice(&body);
    response
}
