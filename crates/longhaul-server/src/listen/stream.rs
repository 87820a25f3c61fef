//! TCP and TLS streams with a write timeout.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// TCP socket whose writes fail if the peer reads nothing for `write_timeout`.
///
/// Sits below TLS, because a TLS stream buffers more than its peer has read, so that only the socket
/// shows whether the peer makes progress.
pub(super) struct TimedSocket {
    socket: TcpStream,
    write_timeout: Duration,
    stall: Option<Pin<Box<Sleep>>>,
}

impl TimedSocket {
    pub(super) fn new(socket: TcpStream, write_timeout: Duration) -> Self {
        Self { socket, write_timeout, stall: None }
    }

    /// Peeks at the first byte that the peer sent. Returns `None` if the peer has closed the connection.
    pub(super) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        Ok((self.socket.peek(&mut first).await? > 0).then_some(first[0]))
    }

    /// Starts or stops the write timeout, depending on whether the peer reads.
    fn with_write_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.stall = None;
            return progress;
        }
        let timeout = self.write_timeout;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        stall.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for TimedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.with_write_timeout(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.with_write_timeout(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Stream of an HTTP connection: plain or TLS, which is boxed because its buffers would enlarge every plain
/// connection.
pub(super) type MaybeTlsStream = Either<TimedSocket, Box<TlsStream<TimedSocket>>>;
