//! A server with scripted responses that counts requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul::blob::{Blobs, CloudOptions};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::servers::s3_options;

/// Response to one request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// This status and body.
    Status(u16, &'static str),
    /// No response, with the connection left open.
    Nothing,
    /// The connection is closed.
    Hangup,
}

/// Stops when dropped.
pub(crate) struct Stub {
    port: u16,
    asked: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Stub {
    /// Sends these responses in turn, and repeats the last one.
    pub(crate) async fn answering(answers: impl Into<VecDeque<Answer>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, answers) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(answers.into())));
        let counted = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(client, Arc::clone(&counted), Arc::clone(&answers)));
            }
        });
        Self { port, asked, accepting }
    }

    /// Opens the stub as an S3 store with these options.
    pub(crate) fn open(&self, options: &CloudOptions) -> Blobs {
        let address =
            format!("s3://bucket?endpoint=http://127.0.0.1:{}&allow_http=true", self.port);
        let variables = s3_options("topsecret").variables;
        Blobs::open_with(&address, &CloudOptions { variables, ..options.clone() }).unwrap()
    }

    /// Returns the number of requests.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(client: TcpStream, asked: Arc<AtomicUsize>, answers: Arc<Mutex<VecDeque<Answer>>>) {
    let mut client = BufReader::new(client);
    let mut body = 0;
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            body = length.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    client.read_exact(&mut vec![0; body]).await.unwrap();
    asked.fetch_add(1, Ordering::SeqCst);
    match next(&answers) {
        Answer::Status(status, body) => {
            let text = format!(
                "HTTP/1.1 {status} As told\r\nETag: \"1\"\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            client.write_all(text.as_bytes()).await.ok();
        }
        Answer::Nothing => std::future::pending().await,
        Answer::Hangup => {}
    }
}

fn next(answers: &Mutex<VecDeque<Answer>>) -> Answer {
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = answers.pop_front().unwrap();
    if answers.is_empty() {
        answers.push_back(answer.clone());
    }
    answer
}
