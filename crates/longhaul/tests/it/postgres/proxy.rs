//! A proxy between a store and its database that loses messages or freezes connections on command.
//!
//! It parses the Postgres protocol far enough to map messages to statements, so that a test can
//! name "the response to COMMIT" instead of "the fourth packet".

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Message to lose, together with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostMessage {
    /// The server never receives the statement.
    Question,
    /// The server has executed the statement, and the client never receives the response.
    Answer,
    /// All existing connections stay open and carry nothing from now on.
    Everything,
}

/// A proxy in front of one server. Stops when dropped.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<ProxyState>,
    accepting: JoinHandle<()>,
}

struct ProxyState {
    upstream: String,
    /// Message to lose next. A std mutex: held to take it out, never across an await.
    plan: Mutex<Option<(LostMessage, String)>>,
    losses: watch::Sender<usize>,
    stalled: watch::Sender<bool>,
    connections: watch::Sender<Connections>,
}

/// Connections, numbered in the order of their beginning.
#[derive(Debug, Default)]
struct Connections {
    begun: usize,
    /// Those that the client has not closed.
    open: BTreeSet<usize>,
    /// Those with smaller numbers carry nothing.
    frozen: usize,
    /// The one whose statement froze all.
    freezer: Option<usize>,
}

impl Proxy {
    /// Starts a proxy in front of the server with this URL.
    pub(crate) async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(ProxyState {
            upstream: host_of(url).to_owned(),
            plan: Mutex::default(),
            losses: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
            connections: watch::Sender::default(),
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

    /// Returns the URL of the same database through the proxy.
    pub(crate) fn url(&self, url: &str) -> String {
        let through = url.replace(host_of(url), &format!("127.0.0.1:{}", self.port));
        let joined = if through.contains('?') { '&' } else { '?' };
        format!("{through}{joined}sslmode=disable")
    }

    /// Loses the next statement that contains `text`, or its response, and the connection.
    pub(crate) fn lose(&self, what: LostMessage, text: &str) {
        *self.shared.plan() = Some((what, text.to_owned()));
    }

    /// Returns the number of lost messages.
    pub(crate) fn losses(&self) -> usize {
        *self.shared.losses.borrow()
    }

    /// Waits until a message was lost.
    pub(crate) async fn lost(&self) {
        self.shared.losses.subscribe().wait_for(|losses| *losses > 0).await.unwrap();
    }

    /// Stops all traffic without closing connections.
    pub(crate) fn stall(&self) {
        self.shared.stalled.send_replace(true);
    }

    /// Freezes all existing connections for good: they stay open and carry nothing, not even that the client closes
    /// one. New ones work.
    pub(crate) fn freeze(&self) {
        self.shared.freeze(None);
    }

    /// Freezes all existing connections when the next statement that contains `text` arrives, which the server does
    /// not receive.
    pub(crate) fn freeze_at(&self, text: &str) {
        self.lose(LostMessage::Everything, text);
    }

    /// Waits until the client has closed the connection whose statement froze all.
    pub(crate) async fn freezer_closed(&self) {
        let mut connections = self.shared.connections.subscribe();
        let is_closed = |connections: &Connections| {
            connections.freezer.is_some_and(|number| !connections.open.contains(&number))
        };
        connections.wait_for(is_closed).await.unwrap();
    }

    /// Waits until the client has closed all frozen connections.
    pub(crate) async fn frozen_connections_closed(&self) {
        let mut connections = self.shared.connections.subscribe();
        let are_closed = |connections: &Connections| {
            connections.open.range(..connections.frozen).next().is_none()
        };
        connections.wait_for(are_closed).await.unwrap();
    }

    /// Resumes the traffic.
    pub(crate) fn go_on(&self) {
        self.shared.stalled.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns host and port of a URL.
fn host_of(url: &str) -> &str {
    url.split_once('@').unwrap().1.split('/').next().unwrap()
}

impl ProxyState {
    fn plan(&self) -> std::sync::MutexGuard<'_, Option<(LostMessage, String)>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the planned loss for this statement and removes it from the plan.
    fn take(&self, sql: &str) -> Option<LostMessage> {
        let mut plan = self.plan();
        let is_it = plan.as_ref().is_some_and(|(_, text)| sql.contains(text));
        if is_it { plan.take().map(|(lost, _)| lost) } else { None }
    }

    fn count(&self) {
        self.losses.send_modify(|losses| *losses += 1);
    }

    fn freeze(&self, freezer: Option<usize>) {
        self.connections.send_modify(|connections| {
            connections.frozen = connections.begun;
            connections.freezer = freezer;
        });
    }

    /// Records that the client has closed a connection.
    fn close(&self, number: usize) {
        self.connections.send_modify(|connections| {
            connections.open.remove(&number);
        });
    }

    /// Waits until the connection with this number is frozen.
    async fn frozen(&self, number: usize) {
        let mut connections = self.connections.subscribe();
        connections.wait_for(|connections| number < connections.frozen).await.unwrap();
    }

    async fn pass(&self) {
        self.stalled.subscribe().wait_for(|stalled| !stalled).await.unwrap();
    }
}

async fn serve(client: TcpStream, shared: Arc<ProxyState>) {
    shared.pass().await;
    let Ok(server) = TcpStream::connect(&shared.upstream).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let mut number = 0;
    shared.connections.send_modify(|connections| {
        number = connections.begun;
        connections.begun += 1;
        connections.open.insert(number);
    });
    let swallow = AtomicBool::new(false);
    // When one direction ends, the other is dropped, which closes both connections.
    tokio::select! {
        _ = up(BufReader::new(from_client), to_server, (&shared, number), &swallow) => {}
        _ = down(BufReader::new(from_server), to_client, (&shared, number), &swallow) => {}
    }
    shared.close(number);
}

/// Forwards messages from the client to the server.
async fn up(
    mut from: BufReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    (shared, number): (&ProxyState, usize),
    swallow: &AtomicBool,
) -> io::Result<()> {
    let mut prepared: HashMap<String, String> = HashMap::new();
    // The first message has no type.
    let hello = message(&mut from, false).await?;
    to.write_all(&hello).await?;
    loop {
        let asked = tokio::select! {
            biased;
            () = shared.frozen(number) => {
                until_closed(&mut from).await?;
                shared.close(number);
                // The server does not learn of it.
                std::future::pending().await
            }
            asked = message(&mut from, true) => asked?,
        };
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
            Some(LostMessage::Question) => {
                shared.count();
                return Ok(());
            }
            Some(LostMessage::Answer) => swallow.store(true, Ordering::SeqCst),
            Some(LostMessage::Everything) => {
                shared.freeze(Some(number));
                shared.count();
                continue;
            }
            None => {}
        }
        to.write_all(&asked).await?;
    }
}

/// Forwards messages from the server to the client.
async fn down(
    mut from: BufReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    (shared, number): (&ProxyState, usize),
    swallow: &AtomicBool,
) -> io::Result<()> {
    loop {
        let answered = tokio::select! {
            biased;
            () = shared.frozen(number) => std::future::pending().await,
            answered = message(&mut from, true) => answered?,
        };
        shared.pass().await;
        if swallow.load(Ordering::SeqCst) {
            // Ready for queries outside a transaction, so the statement is done.
            if answered[0] == b'Z' && answered[5] == b'I' {
                shared.count();
                return Ok(());
            }
        } else {
            to.write_all(&answered).await?;
        }
    }
}

/// Reads and discards everything until the connection is closed.
async fn until_closed(from: &mut BufReader<OwnedReadHalf>) -> io::Result<()> {
    tokio::io::copy(from, &mut tokio::io::sink()).await.map(drop)
}

/// Reads one message in its wire format.
async fn message(from: &mut BufReader<OwnedReadHalf>, typed: bool) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; if typed { 5 } else { 4 }];
    from.read_exact(&mut bytes).await?;
    let length = bytes.last_chunk::<4>().map(|length| u32::from_be_bytes(*length)).unwrap();
    let head = bytes.len();
    bytes.resize(head + usize::try_from(length).unwrap() - 4, 0);
    from.read_exact(&mut bytes[head..]).await?;
    Ok(bytes)
}
