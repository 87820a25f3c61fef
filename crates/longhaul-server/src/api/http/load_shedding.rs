//! Refusing early what would only wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longhaul::{Clock, Timestamp};

use crate::problem::{Code, Problem};

/// Of the places, the percentage that submissions may have; the rest is for whoever asks or stops.
const SUBMIT_PERCENT: usize = 80;
/// What a store takes for a submission at most while it is well.
const TARGET: Duration = Duration::from_secs(1);
/// For how long it may take longer, and after how much more ever fewer get through.
const INTERVAL: Duration = Duration::from_secs(2);
/// At worst one of so many submissions gets through, as a power of two: somebody has to find out
/// that the store is well again.
const SHED_LEVEL_MAX: u32 = 5;

/// Keeps answers prompt by refusing (503 `overloaded`) what there is no room for.
///
/// **Places.** A request has one while it works: not while its body comes in, nor while it is held
/// by `?wait` or `Prefer: wait`, nor once an event stream flows. Submissions may have 80 % of them,
/// reads and changes all; health, metrics and workers' calls are never refused, because refusing
/// them would make things worse.
///
/// **Promptness.** Places alone would let a slow store fill them first. So the time that the store
/// takes for a submission is watched, as `CoDel` watches a queue: if for an interval not one was
/// answered within the target, every second submission is refused, after another interval three of
/// four, and so on. The first prompt answer, or the last slow one, ends it.
#[derive(Debug, Clone)]
pub struct LoadShedder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    places: usize,
    taken: AtomicUsize,
    clock: Clock,
    /// A std mutex: held for a few field writes, never across an await.
    store: Mutex<Promptness>,
}

#[derive(Debug)]
struct Promptness {
    /// Submissions that the store is at.
    open: usize,
    /// When it was last known to be well: a prompt answer, or nothing to answer.
    well_at: Timestamp,
    arrivals: u64,
}

/// How soon a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Vital,
    Other,
    Submit,
}

impl Class {
    fn of(method: &Method, route: &str) -> Self {
        match route {
            "/livez" | "/readyz" | "/healthz" | "/metrics" => Self::Vital,
            route if route.starts_with("/v1/work/") => Self::Vital,
            "/v1/jobs"
            | "/v1/jobs/batch"
            | "/v1/kinds/{kind}/jobs"
            | "/jobs"
            | "/api/chat"
            | "/api/generate"
            | "/v1/chat/completions"
            | "/render"
                if *method == Method::POST =>
            {
                Self::Submit
            }
            _ => Self::Other,
        }
    }
}

tokio::task_local! {
    /// The place of the request that this task answers.
    static PLACE: Place;
}

/// A request's place, given back when it is dropped.
struct Place(Arc<Inner>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LoadShedder {
    /// So many requests at once.
    pub fn new(places: usize, clock: Clock) -> Self {
        let store = Promptness { open: 0, well_at: clock.now(), arrivals: 0 };
        Self(Arc::new(Inner { places, taken: AtomicUsize::new(0), clock, store: store.into() }))
    }

    /// Requests that have a place.
    pub fn in_flight(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    fn enter(&self, class: Class) -> Result<Place, Problem> {
        let Inner { places, taken, .. } = &*self.0;
        let room = match class {
            Class::Vital => usize::MAX,
            Class::Other => *places,
            Class::Submit => (places * SUBMIT_PERCENT / 100).max(1),
        };
        let place = Place(Arc::clone(&self.0));
        if taken.fetch_add(1, Ordering::Relaxed) >= room {
            metrics::counter!("longhaul_requests_shed_total", "reason" => "places").increment(1);
            return Err(overloaded("too many requests are being answered", 1));
        }
        if class == Class::Submit && self.must_shed() {
            metrics::counter!("longhaul_requests_shed_total", "reason" => "slow").increment(1);
            return Err(overloaded("the store is slow", 2));
        }
        Ok(place)
    }

    fn must_shed(&self) -> bool {
        let now = self.0.clock.now();
        let mut store = self.0.store.lock().unwrap_or_else(PoisonError::into_inner);
        let level = store.shed_level(now);
        store.arrivals = store.arrivals.wrapping_add(1);
        level > 0 && !store.arrivals.is_multiple_of(1 << level)
    }

    /// Watches how long the store takes for a submission.
    pub(crate) async fn watched<T>(&self, submit: impl Future<Output = T>) -> T {
        /// Closes it also when the caller hangs up.
        struct Open<'a>(&'a Inner, Timestamp);
        impl Drop for Open<'_> {
            fn drop(&mut self) {
                let now = self.0.clock.now();
                let mut store = self.0.store.lock().unwrap_or_else(PoisonError::into_inner);
                store.open = store.open.saturating_sub(1);
                if now.since(self.1) <= TARGET {
                    store.well_at = now;
                }
            }
        }
        let open = {
            let now = self.0.clock.now();
            let mut store = self.0.store.lock().unwrap_or_else(PoisonError::into_inner);
            if store.open == 0 {
                store.well_at = now;
            }
            store.open += 1;
            Open(&self.0, now)
        };
        let submitted = submit.await;
        drop(open);
        submitted
    }
}

impl Promptness {
    /// Of two to this power submissions, one gets through.
    fn shed_level(&self, now: Timestamp) -> u32 {
        let late = now.since(self.well_at);
        let Some(over) = late.checked_sub(TARGET + INTERVAL).filter(|_| self.open > 0) else {
            return 0;
        };
        let intervals = over.as_millis() / INTERVAL.as_millis();
        u32::try_from(intervals).unwrap_or(SHED_LEVEL_MAX).saturating_add(1).min(SHED_LEVEL_MAX)
    }
}

fn overloaded(why: &str, retry_s: u64) -> Problem {
    let detail = format!("{why}; nothing was done: repeat the request later");
    Problem::new(Code::Overloaded, detail).retry_after(Duration::from_secs(retry_s))
}

/// Gives a request its place, or refuses it.
pub(crate) async fn shed(
    State(overload): State<LoadShedder>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let class = Class::of(request.method(), route.unwrap_or_default());
    shed_as(class, &overload, request, next).await
}

/// The same for routes on which every request is a submission.
pub(crate) async fn shed_submission(
    State(overload): State<LoadShedder>,
    request: Request,
    next: Next,
) -> Response {
    shed_as(Class::Submit, &overload, request, next).await
}

async fn shed_as(class: Class, overload: &LoadShedder, request: Request, next: Next) -> Response {
    match overload.enter(class) {
        Ok(place) => PLACE.scope(place, next.run(request)).await,
        Err(problem) => problem.into_response(),
    }
}

/// Waits for something that costs the server nothing, without a place meanwhile. What comes back
/// is not refused any more: it has been let in.
pub(crate) async fn without_permit<T>(wait: impl Future<Output = T>) -> T {
    /// Takes the place again also when the wait is given up, so that the request gives it back.
    struct Aside(Option<Arc<Inner>>);
    impl Drop for Aside {
        fn drop(&mut self) {
            if let Some(inner) = &self.0 {
                inner.taken.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    let inner = PLACE.try_with(|Place(inner)| Arc::clone(inner)).ok();
    if let Some(inner) = &inner {
        inner.taken.fetch_sub(1, Ordering::Relaxed);
    }
    let aside = Aside(inner);
    let waited = wait.await;
    drop(aside);
    waited
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(places: usize) -> LoadShedder {
        LoadShedder::new(places, Clock::manual(Timestamp::from_millis(0)))
    }

    fn refused(result: Result<Place, Problem>) -> bool {
        result.is_err_and(|problem| problem.code() == Code::Overloaded)
    }

    #[test]
    fn submissions_leave_room_for_reads_and_all_leave_room_for_what_is_vital() {
        let overload = overload(10);
        let mut held: Vec<Place> =
            (0..8).map(|_| overload.enter(Class::Submit).ok().unwrap()).collect();
        assert!(refused(overload.enter(Class::Submit)));
        held.extend((0..2).map(|_| overload.enter(Class::Other).ok().unwrap()));
        assert!(refused(overload.enter(Class::Other)));
        held.push(overload.enter(Class::Vital).ok().unwrap());
        drop(held);
        assert_eq!(overload.in_flight(), 0, "refused ones have no place");
        assert!(overload.enter(Class::Submit).is_ok());
    }

    #[tokio::test]
    async fn request_that_waits_has_no_place_and_has_it_again_afterwards() {
        let overload = overload(1);
        let taken = || overload.in_flight();
        let place = overload.enter(Class::Other).ok().unwrap();
        let request = PLACE.scope(place, async {
            assert_eq!(without_permit(async { taken() }).await, 0);
            assert_eq!(taken(), 1);
            // Given up while it waits.
            drop(
                tokio::time::timeout(Duration::ZERO, without_permit(std::future::pending::<()>()))
                    .await,
            );
            assert_eq!(taken(), 1);
        });
        request.await;
        assert_eq!(taken(), 0);
    }

    /// Of 64 submissions, how many are refused.
    fn shed_of_64(overload: &LoadShedder) -> usize {
        (0..64).filter(|_| refused(overload.enter(Class::Submit))).count()
    }

    #[tokio::test]
    async fn slow_store_is_sent_ever_less_until_it_answers_promptly() {
        let overload = overload(1_000);
        let clock = overload.0.clock.clone();
        let mut stalled = Box::pin(overload.watched(std::future::pending::<()>()));
        assert!(futures_util::poll!(&mut stalled).is_pending());
        assert_eq!(shed_of_64(&overload), 0);
        clock.advance(TARGET + INTERVAL);
        assert_eq!(shed_of_64(&overload), 32);
        clock.advance(INTERVAL);
        assert_eq!(shed_of_64(&overload), 48);
        clock.advance(INTERVAL * 100);
        assert_eq!(shed_of_64(&overload), 62, "some always get through");
        assert!(overload.enter(Class::Other).is_ok(), "reads are not the store's trouble");
        overload.watched(async {}).await;
        assert_eq!(shed_of_64(&overload), 0, "one prompt answer is enough");
    }

    #[tokio::test]
    async fn last_slow_answer_ends_it_too() {
        let overload = overload(1_000);
        let mut stalled = Box::pin(overload.watched(std::future::pending::<()>()));
        assert!(futures_util::poll!(&mut stalled).is_pending());
        overload.0.clock.advance(TARGET + INTERVAL);
        assert_eq!(shed_of_64(&overload), 32);
        drop(stalled);
        assert_eq!(shed_of_64(&overload), 0);
    }
}
