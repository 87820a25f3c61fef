//! Notifications between replicas: jobs may be ready to claim, jobs may have changed, cancellation of running jobs was
//! requested, or running attempts have written output.
//!
//! A notification is sent after the commit, one for everything that was committed since the last one, and
//! never inside a transaction of the store, because Postgres delivers notifications under one lock of
//! the whole server. Nothing depends on them: a replica that receives none polls.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::job::Retry;
use crate::metrics;
use crate::store::ChangeNotifications;
use crate::store::postgres::Inner;
use crate::store::postgres::connection::database::PgDatabase;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::timeouts::within;

const CHANNEL: &str = "longhaul";
/// Beginning of notifications that the SQL function `longhaul.submit` sends instead of a replica.
const SQL_SENDER: &str = "sql ";
/// Minimum time between two notifications of ready jobs.
const READY_PAUSE: Duration = Duration::from_millis(5);
/// Minimum time between two notifications of changed jobs, or of cancellations, which only shorten a poll.
const JOBS_PAUSE: Duration = Duration::from_millis(50);
/// Minimum time between two notifications of output, which only shorten a poll.
const OUTPUT_PAUSE: Duration = Duration::from_millis(25);
/// Backoff between attempts to listen. Its maximum is the interval of heartbeats, which also reconnect.
const LISTEN_RETRY: Retry =
    Retry { max_attempts: u32::MAX, first: Duration::from_secs(1), max: Duration::from_secs(5) };

/// Sends a notification. Without a sync, because a notification may be lost in a crash.
const SEND: &str =
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)";

/// Notifications that this process has to send, and those that it received.
pub(crate) struct Notifier {
    /// Random id of this process, so that it ignores its own notifications.
    sender_id: String,
    ready: Signal,
    changed: Signal,
    cancelling: Signal,
    output: Signal,
    /// Jobs were submitted by SQL.
    incoming: Signal,
    received_ready: watch::Sender<u64>,
    received_changed: watch::Sender<u64>,
    received_cancellations: watch::Sender<u64>,
    received_output: watch::Sender<u64>,
    /// True if other processes use this database.
    has_peers: AtomicBool,
}

#[derive(Default)]
struct Signal {
    is_set: AtomicBool,
    wake: Notify,
}

impl Signal {
    fn set(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    async fn next(&self) {
        while !self.is_set.swap(false, Ordering::AcqRel) {
            self.wake.notified().await;
        }
    }
}

impl Notifier {
    pub(crate) fn new() -> Self {
        Self {
            sender_id: format!("{:016x}", rand::random::<u64>()),
            ready: Signal::default(),
            changed: Signal::default(),
            cancelling: Signal::default(),
            output: Signal::default(),
            incoming: Signal::default(),
            received_ready: watch::Sender::new(0),
            received_changed: watch::Sender::new(0),
            received_cancellations: watch::Sender::new(0),
            received_output: watch::Sender::new(0),
            has_peers: AtomicBool::new(true),
        }
    }

    /// Notifies other replicas that jobs may be ready to claim.
    pub(crate) fn jobs_ready(&self) {
        self.ready.set();
    }

    /// Notifies other replicas that jobs may have changed.
    pub(crate) fn jobs_changed(&self) {
        self.changed.set();
    }

    /// Notifies other replicas that cancellation of running jobs was requested.
    pub(crate) fn cancel_requested(&self) {
        self.cancelling.set();
    }

    /// Notifies other replicas that running attempts have written output.
    pub(crate) fn output_appended(&self) {
        self.output.set();
    }

    /// Returns true if other processes use this database, or if that is not known yet.
    pub(crate) fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_has_peers(&self, has_peers: bool) {
        self.has_peers.store(has_peers, Ordering::Relaxed);
    }

    /// Returns counters that rise with received notifications.
    pub(crate) fn subscribe(&self) -> ChangeNotifications {
        ChangeNotifications {
            ready: self.received_ready.subscribe(),
            jobs: self.received_changed.subscribe(),
            cancellations: self.received_cancellations.subscribe(),
        }
    }

    /// Returns a counter that rises with received notifications of output.
    pub(crate) fn subscribe_to_output(&self) -> watch::Receiver<u64> {
        self.received_output.subscribe()
    }

    fn receive(&self, payload: &str) {
        match payload.split_once(' ') {
            Some((sender, _)) if sender == self.sender_id => return,
            Some((_, "ready")) => self.wake_claims(),
            Some((_, "incoming")) => self.incoming.set(),
            Some((_, "jobs")) => self.received_changed.send_modify(|count| *count += 1),
            Some((_, "cancel")) => self.received_cancellations.send_modify(|count| *count += 1),
            Some((_, "output")) => self.received_output.send_modify(|count| *count += 1),
            // Sent by another version of this program.
            Some(_) | None => self.wake_all(),
        }
        if !payload.starts_with(SQL_SENDER) {
            // Sooner than the next heartbeat, which corrects it.
            self.set_has_peers(true);
        }
    }

    /// Waits until jobs were submitted by SQL.
    pub(crate) async fn incoming(&self) {
        self.incoming.next().await;
    }

    /// Makes this process claim.
    pub(crate) fn wake_claims(&self) {
        self.received_ready.send_modify(|count| *count += 1);
    }

    fn wake_all(&self) {
        self.wake_claims();
        self.incoming.set();
        self.received_changed.send_modify(|count| *count += 1);
        self.received_cancellations.send_modify(|count| *count += 1);
        self.received_output.send_modify(|count| *count += 1);
    }
}

/// Sends notifications until it is dropped.
pub(crate) async fn run_sender(inner: Arc<Inner>) {
    let notifier = &inner.notify;
    tokio::join!(
        send_each(&inner.database, notifier, &notifier.ready, "ready", READY_PAUSE),
        send_each(&inner.database, notifier, &notifier.changed, "jobs", JOBS_PAUSE),
        send_each(&inner.database, notifier, &notifier.cancelling, "cancel", JOBS_PAUSE),
        send_each(&inner.database, notifier, &notifier.output, "output", OUTPUT_PAUSE),
    );
}

async fn send_each(
    database: &PgDatabase,
    notifier: &Notifier,
    signal: &Signal,
    topic: &str,
    pause: Duration,
) {
    let payload = format!("{} {topic}", notifier.sender_id);
    loop {
        signal.next().await;
        if notifier.has_peers()
            && let Err(error) = send(database, &payload).await
        {
            tracing::debug!(?error, "cannot send a notification");
        }
        tokio::time::sleep(pause).await;
    }
}

async fn send(database: &PgDatabase, payload: &str) -> Result<(), PgError> {
    let mut connection = database.connection().await?;
    connection.query(SEND, &[&CHANNEL, &payload]).await?;
    Ok(())
}

/// Receives notifications until it is dropped.
pub(crate) async fn run_listener(inner: Arc<Inner>) {
    let mut failures = 0;
    // A transaction pooler does not support LISTEN; polling has to do.
    while let Some((config, tls)) = inner.database.listen_config() {
        let began = tokio::time::Instant::now();
        if let Err(error) = listen(&inner, &config, tls).await {
            tracing::debug!(?error, "cannot listen for notifications");
        }
        if began.elapsed() > LISTEN_RETRY.max {
            failures = 0;
        }
        failures += 1;
        tokio::time::sleep(LISTEN_RETRY.delay(failures, rand::random())).await;
    }
}

/// Receives notifications over one connection until it is lost.
async fn listen(inner: &Inner, config: &Config, tls: MakeRustlsConnect) -> Result<(), PgError> {
    let timeouts = inner.database.timeouts();
    let (client, mut connection) = within(timeouts.connect, config.connect(tls)).await?;
    let listening = async {
        within(timeouts.check, client.batch_execute(&format!("LISTEN {CHANNEL}"))).await?;
        // Notifications may have been missed before.
        inner.notify.wake_all();
        loop {
            tokio::time::sleep(timeouts.listen_check_interval).await;
            // This connection only reads, so nothing else would show that it is dead.
            within(timeouts.check, client.check_connection()).await?;
        }
    };
    let receiving = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message? {
                inner.notify.receive(notification.payload());
            }
        }
        Ok(())
    };
    let ended = tokio::select! {
        ended = listening => ended,
        ended = receiving => ended,
    };
    metrics::connection_dropped();
    ended
}
