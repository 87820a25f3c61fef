//! Notifications between processes: that there may be something to claim, and that jobs may have changed.
//!
//! A hint is sent after the commit that it tells of, one for all that happened meanwhile, and never
//! inside a transaction of ours: Postgres hands notifications out under one lock for the whole server.
//! Nothing depends on them: whoever hears none looks by itself now and then.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_postgres::AsyncMessage;

use super::Inner;
use super::database::Database;
use super::error::Trouble;
use crate::job::Retry;

const CHANNEL: &str = "longhaul";
/// The least time between two hints at new work.
const LINE_PAUSE: Duration = Duration::from_millis(5);
/// The least time between two hints at changes, which only shorten a wait.
const JOBS_PAUSE: Duration = Duration::from_millis(50);
/// How listening is tried again.
const AGAIN: Retry =
    Retry { max_attempts: u32::MAX, first: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Not synced: a hint that is lost in a crash is no loss.
const SEND: &str =
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)";

/// What this process has to tell, and what it heard.
pub(super) struct Notifier {
    /// Tells this process's hints from others'.
    me: String,
    line: Pending,
    jobs: Pending,
    /// Somebody submitted by SQL.
    arrivals: Pending,
    heard_line: watch::Sender<u64>,
    heard_jobs: watch::Sender<u64>,
    /// Whether there is anybody else to tell.
    others: AtomicBool,
}

#[derive(Default)]
struct Pending {
    is: AtomicBool,
    wake: Notify,
}

impl Pending {
    fn set(&self) {
        if !self.is.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    async fn next(&self) {
        while !self.is.swap(false, Ordering::AcqRel) {
            self.wake.notified().await;
        }
    }
}

impl Notifier {
    pub(super) fn new() -> Self {
        Self {
            me: format!("{:016x}", rand::random::<u64>()),
            line: Pending::default(),
            jobs: Pending::default(),
            arrivals: Pending::default(),
            heard_line: watch::Sender::new(0),
            heard_jobs: watch::Sender::new(0),
            others: AtomicBool::new(true),
        }
    }

    /// There may be something to claim.
    pub(super) fn line(&self) {
        self.line.set();
    }

    /// Jobs may have changed.
    pub(super) fn jobs(&self) {
        self.jobs.set();
    }

    /// Says whether other processes use this database.
    pub(super) fn set_others(&self, others: bool) {
        self.others.store(others, Ordering::Relaxed);
    }

    /// What others told.
    pub(super) fn heard(&self) -> (watch::Receiver<u64>, watch::Receiver<u64>) {
        (self.heard_line.subscribe(), self.heard_jobs.subscribe())
    }

    fn hear(&self, payload: &str) {
        match payload.split_once(' ') {
            Some((who, _)) if who == self.me => {}
            Some((_, "line")) => self.hear_line(),
            Some((_, "arrivals")) => self.arrivals.set(),
            Some((_, "jobs")) => self.heard_jobs.send_modify(|count| *count += 1),
            // Of another version of this program.
            Some(_) | None => self.hear_all(),
        }
    }

    /// Returns when somebody has submitted by SQL.
    pub(super) async fn arrival(&self) {
        self.arrivals.next().await;
    }

    /// Makes this process look for something to claim.
    pub(super) fn hear_line(&self) {
        self.heard_line.send_modify(|count| *count += 1);
    }

    fn hear_all(&self) {
        self.hear_line();
        self.arrivals.set();
        self.heard_jobs.send_modify(|count| *count += 1);
    }
}

/// Sends hints until it is dropped.
pub(super) async fn send_on(inner: Arc<Inner>) {
    let notifier = &inner.notify;
    tokio::join!(
        send_each(&inner.database, notifier, &notifier.line, "line", LINE_PAUSE),
        send_each(&inner.database, notifier, &notifier.jobs, "jobs", JOBS_PAUSE),
    );
}

async fn send_each(
    database: &Database,
    notifier: &Notifier,
    pending: &Pending,
    what: &str,
    pause: Duration,
) {
    let payload = format!("{} {what}", notifier.me);
    loop {
        pending.next().await;
        if notifier.others.load(Ordering::Relaxed)
            && let Err(trouble) = send(database, &payload).await
        {
            tracing::debug!(?trouble, "a hint could not be sent");
        }
        tokio::time::sleep(pause).await;
    }
}

async fn send(database: &Database, payload: &str) -> Result<(), Trouble> {
    let mut connection = database.connection().await?;
    connection.query(SEND, &[&CHANNEL, &payload]).await?;
    Ok(())
}

/// Listens for hints until it is dropped.
pub(super) async fn listen_on(inner: Arc<Inner>) {
    let mut failures = 0;
    loop {
        let Some((config, tls)) = inner.database.listening() else {
            // Behind a pooler nothing is heard; looking now and then has to do.
            return;
        };
        match config.connect(tls).await {
            Ok((client, mut connection)) => {
                let listening = async {
                    client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
                    // Whatever was said while nobody listened.
                    inner.notify.hear_all();
                    std::future::pending::<Result<(), tokio_postgres::Error>>().await
                };
                let hearing = async {
                    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                        if let AsyncMessage::Notification(said) = message? {
                            inner.notify.hear(said.payload());
                        }
                    }
                    Ok(())
                };
                let began = tokio::time::Instant::now();
                let ended: Result<(), tokio_postgres::Error> = tokio::select! {
                    ended = listening => ended,
                    ended = hearing => ended,
                };
                if let Err(error) = ended {
                    tracing::debug!(%error, "listening for hints ended");
                }
                if began.elapsed() > AGAIN.max {
                    failures = 0;
                }
            }
            Err(error) => tracing::debug!(%error, "cannot listen for hints"),
        }
        failures += 1;
        tokio::time::sleep(AGAIN.delay(failures, rand::random())).await;
    }
}
