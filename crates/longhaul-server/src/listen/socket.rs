//! The socket under everything: in clear or in TLS, and never waiting for ever for its peer to read.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

/// A TCP socket that errs when the peer takes nothing for `write_timeout`.
///
/// Under TLS rather than over it: a TLS stream takes more than its peer has, and what it is
/// waiting for can only be seen down here.
pub(super) struct Clocked {
    socket: TcpStream,
    write_timeout: Duration,
    stall: Option<Pin<Box<Sleep>>>,
}

impl Clocked {
    pub(super) fn new(socket: TcpStream, write_timeout: Duration) -> Self {
        Self { socket, write_timeout, stall: None }
    }

    /// The first byte that the peer sent, which stays to be read; `None` if it has closed.
    pub(super) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        Ok((self.socket.peek(&mut first).await? > 0).then_some(first[0]))
    }

    /// Starts, keeps or ends the clock on a peer that does not read.
    fn clocked<T>(
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

impl AsyncRead for Clocked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Clocked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.clocked(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.clocked(cx, progress)
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

/// What HTTP is spoken on.
pub(super) enum Line {
    Plain(Clocked),
    /// Boxed: its buffers would make every plain connection larger.
    Tls(Box<TlsStream<Clocked>>),
}

impl Line {
    pub(super) fn is_tls(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_) => true,
        }
    }
}

/// Calls the same method of whichever it is.
macro_rules! either {
    ($line:expr, $socket:ident => $call:expr) => {
        match $line.get_mut() {
            Line::Plain($socket) => {
                let $socket = Pin::new($socket);
                $call
            }
            Line::Tls($socket) => {
                let $socket = Pin::new($socket.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_read(cx, buf))
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, socket => socket.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, socket => socket.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_shutdown(cx))
    }
}
