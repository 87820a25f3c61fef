//! What hyper reads and writes: gives its own refusals a body, and sees what it hides.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::heads::{Heads, TwoLengths};
use super::socket::Line;
use crate::problem::{Code, PROBLEM_JSON, Problem};
use crate::request_id::RequestId;
use crate::secure;

/// hyper's refusals are about a hundred bytes: a status line, three fields and no body.
const REFUSAL_BYTES_MAX: usize = 256;

/// hyper answers what it cannot parse by itself, with an empty body and no hook to change it. A
/// write that looks like such a refusal is therefore held back until either hyper reads or writes
/// again, which it never does after a refusal, and then it goes out as it is; or the connection
/// ends by a parse error, and then it was hyper's and a problem goes out in its place.
pub(super) struct Wire {
    line: Line,
    held: Vec<u8>,
    heads: Heads,
}

impl Wire {
    pub(super) fn new(line: Line) -> Self {
        Self { line, held: Vec::new(), heads: Heads::default() }
    }

    /// Tells, before hyper hands a request over, whether it says its length twice.
    pub(super) fn two_lengths(&self) -> TwoLengths {
        self.heads.found()
    }

    /// Writes what was held back, as it is.
    pub(super) async fn release(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.write_all(&held).await
    }

    /// Writes a problem in place of hyper's refusal.
    pub(super) async fn release_refusal(&mut self) -> io::Result<()> {
        let Some(code) = refused_with(&self.held) else { return self.release().await };
        self.held.clear();
        let problem = Problem::new(code, "the request's head cannot be read");
        let answer = answer(&problem, &RequestId::fresh());
        // Never held again: it has a body.
        self.write_all(&answer).await
    }

    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.held.is_empty() {
            match ready!(Pin::new(&mut self.line).poll_write(cx, &self.held))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => drop(self.held.drain(..written)),
            }
        }
        // hyper believes that it has flushed this.
        Pin::new(&mut self.line).poll_flush(cx)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.poll_held(cx) {
            return Poll::Ready(Err(error));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.line).poll_read(cx, buf))?;
        self.heads.see(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
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
        ready!(self.poll_held(cx))?;
        let mut filled = bufs.iter().filter(|buf| !buf.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next())
            && refused_with(only).is_some()
        {
            self.held.extend_from_slice(only);
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.line).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }

    /// What is held stays held: hyper flushes after each answer.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_held(cx))?;
        Pin::new(&mut self.line).poll_shutdown(cx)
    }
}

/// The code for a whole answer that could be one of hyper's refusals.
fn refused_with(bytes: &[u8]) -> Option<Code> {
    if bytes.len() > REFUSAL_BYTES_MAX {
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

/// A whole answer that ends its connection, for where there is no HTTP machinery to write it.
pub(super) fn answer(problem: &Problem, id: &RequestId) -> Vec<u8> {
    let body = problem.to_json(id.as_str());
    let mut answer = format!(
        "HTTP/1.1 {}\r\nx-request-id: {id}\r\ncontent-length: {}\r\nconnection: close\r\n",
        problem.status(),
        body.len()
    )
    .into_bytes();
    let mut fields = problem.headers().clone();
    fields.insert(CONTENT_TYPE, PROBLEM_JSON);
    secure::complete(&mut fields, "");
    for (name, value) in &fields {
        answer.extend_from_slice(name.as_str().as_bytes());
        answer.extend_from_slice(b": ");
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    answer
}
