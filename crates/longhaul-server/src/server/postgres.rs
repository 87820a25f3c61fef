//! Opens a Postgres database, and waits for a server that is not there yet.

use std::time::Duration;

use longhaul::Clock;
use longhaul::store::postgres::{OpenError, PostgresStore};
use tokio::time::Instant;

use super::StartError;

/// Pause between attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Opens a database. If its server is not reachable, tries again for as long as `wait`, because machines and containers
/// start in any order. Also returns whether it had to wait.
pub(super) async fn open_when_reachable(
    url: &str,
    clock: &Clock,
    wait: Duration,
) -> Result<(PostgresStore, bool), StartError> {
    retry_while_unreachable(wait, async || PostgresStore::open(url, clock.clone()).await).await
}

async fn retry_while_unreachable<T>(
    wait: Duration,
    mut open: impl AsyncFnMut() -> Result<T, OpenError>,
) -> Result<(T, bool), StartError> {
    let began = Instant::now();
    let mut logged = None;
    loop {
        let error = match open().await {
            Ok(opened) => return Ok((opened, logged.is_some())),
            Err(error @ OpenError::Unreachable(_)) => StartError::postgres(error),
            Err(error) => return Err(StartError::postgres(error)),
        };
        let left = wait.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(error);
        }
        if let StartError::Postgres { address, reason } = &error
            && logged.as_ref() != Some(reason)
        {
            tracing::warn!("waiting for Postgres at {address}: {reason}");
            logged = Some(reason.clone());
        }
        tokio::time::sleep(left.min(RETRY_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn refused() -> OpenError {
        OpenError::Unreachable(
            "db:5433: error connecting to server: Connection refused (os error 111)".to_owned(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn database_that_starts_late_is_opened() {
        let mut attempts = 0;
        let opened = retry_while_unreachable(MINUTE, async || {
            attempts += 1;
            if attempts < 10 { Err(refused()) } else { Ok(attempts) }
        });
        assert_eq!(opened.await.unwrap(), (10, true));
        let opened = retry_while_unreachable(MINUTE, async || Ok(()));
        assert_eq!(opened.await.unwrap(), ((), false));
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_database_ends_with_the_last_error() {
        let mut attempts = 0;
        let opened = retry_while_unreachable(MINUTE, async || {
            attempts += 1;
            Err::<(), _>(refused())
        });
        let error = opened.await.unwrap_err().to_string();
        assert_eq!(error, "cannot connect to Postgres at db:5433: Connection refused");
        assert_eq!(attempts, 61);
    }

    #[tokio::test(start_paused = true)]
    async fn errors_that_do_not_pass_end_the_wait_for_a_database() {
        for (wait, error) in [
            (Duration::ZERO, refused as fn() -> OpenError),
            (MINUTE, || {
                OpenError::Connect("db:5433: password authentication failed (28P01)".to_owned())
            }),
            (MINUTE, || OpenError::Refused("it is a standby, which is read-only".to_owned())),
        ] {
            let mut attempts = 0;
            let opened = retry_while_unreachable(wait, async || {
                attempts += 1;
                Err::<(), _>(error())
            });
            assert!(opened.await.is_err());
            assert_eq!(attempts, 1, "{}", error());
        }
    }
}
