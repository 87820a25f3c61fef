//! A wire between a store and its database that loses things on command.
//!
//! It reads Postgres' protocol far enough to know which statement a message is for, so that a test says
//! "the answer to COMMIT" and not "the fourth packet".

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What is lost, with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The server never hears of it.
    Question,
    /// The server has done it, and nobody hears of that.
    Answer,
}

/// A proxy in front of one server. It ends when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    upstream: String,
    /// What to lose next. A std mutex: held to take it out, never across an await.
    plan: Mutex<Option<(Lost, String)>>,
    losses: watch::Sender<usize>,
    stalled: watch::Sender<bool>,
}

impl Proxy {
    /// Stands in front of the server of this address.
    pub(crate) async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            upstream: host_of(url).to_owned(),
            plan: Mutex::default(),
            losses: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
        });
        let accepting = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    tokio::spawn(serve(client, Arc::clone(&shared)));
                }
            }
        });
        Self { port, shared, accepting }
    }

    /// The same database, through here.
    pub(crate) fn url(&self, url: &str) -> String {
        let through = url.replace(host_of(url), &format!("127.0.0.1:{}", self.port));
        let joined = if through.contains('?') { '&' } else { '?' };
        format!("{through}{joined}sslmode=disable")
    }

    /// Loses the next question that holds `text`, or its answer, and the connection.
    pub(crate) fn lose(&self, what: Lost, text: &str) {
        *self.shared.plan() = Some((what, text.to_owned()));
    }

    /// How often something was lost.
    pub(crate) fn losses(&self) -> usize {
        *self.shared.losses.borrow()
    }

    /// Nothing passes any more, and nobody is told.
    pub(crate) fn stall(&self) {
        self.shared.stalled.send_replace(true);
    }

    /// Everything passes again.
    pub(crate) fn go_on(&self) {
        self.shared.stalled.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Host and port of an address.
fn host_of(url: &str) -> &str {
    url.split_once('@').unwrap().1.split('/').next().unwrap()
}

impl Shared {
    fn plan(&self) -> std::sync::MutexGuard<'_, Option<(Lost, String)>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be lost of this statement.
    fn take(&self, sql: &str) -> Option<Lost> {
        let mut plan = self.plan();
        let is_it = plan.as_ref().is_some_and(|(_, text)| sql.contains(text));
        if is_it { plan.take().map(|(lost, _)| lost) } else { None }
    }

    fn count(&self) {
        self.losses.send_modify(|losses| *losses += 1);
    }

    async fn pass(&self) {
        self.stalled.subscribe().wait_for(|stalled| !stalled).await.unwrap();
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>) {
    shared.pass().await;
    let Ok(server) = TcpStream::connect(&shared.upstream).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let swallow = AtomicBool::new(false);
    // Whichever ends takes the other along, and with it both connections.
    tokio::select! {
        _ = up(BufReader::new(from_client), to_server, &shared, &swallow) => {}
        _ = down(BufReader::new(from_server), to_client, &shared, &swallow) => {}
    }
}

/// What the client asks.
async fn up(
    mut from: BufReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    swallow: &AtomicBool,
) -> io::Result<()> {
    let mut prepared: HashMap<String, String> = HashMap::new();
    // The first message has no type.
    let hello = message(&mut from, false).await?;
    to.write_all(&hello).await?;
    loop {
        let asked = message(&mut from, true).await?;
        shared.pass().await;
        let mut texts = asked[5..].split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut text = || texts.next().unwrap_or_default().into_owned();
        let sql = match asked[0] {
            b'Q' => Some(text()),
            b'P' => {
                prepared.insert(text(), text());
                None
            }
            b'B' => {
                let (_portal, name) = (text(), text());
                prepared.get(&name).cloned()
            }
            _ => None,
        };
        match sql.and_then(|sql| shared.take(&sql)) {
            Some(Lost::Question) => {
                shared.count();
                return Ok(());
            }
            Some(Lost::Answer) => swallow.store(true, Ordering::SeqCst),
            None => {}
        }
        to.write_all(&asked).await?;
    }
}

/// What the server answers.
async fn down(
    mut from: BufReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    swallow: &AtomicBool,
) -> io::Result<()> {
    loop {
        let answered = message(&mut from, true).await?;
        shared.pass().await;
        if swallow.load(Ordering::SeqCst) {
            // Ready again, and outside of any transaction: it is done.
            if answered[0] == b'Z' && answered[5] == b'I' {
                shared.count();
                return Ok(());
            }
        } else {
            to.write_all(&answered).await?;
        }
    }
}

/// One message, as it is on the wire.
async fn message(from: &mut BufReader<OwnedReadHalf>, typed: bool) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; if typed { 5 } else { 4 }];
    from.read_exact(&mut bytes).await?;
    let length = bytes.last_chunk::<4>().map(|length| u32::from_be_bytes(*length)).unwrap();
    let head = bytes.len();
    bytes.resize(head + usize::try_from(length).unwrap() - 4, 0);
    from.read_exact(&mut bytes[head..]).await?;
    Ok(bytes)
}
