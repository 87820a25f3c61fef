//! Lists: newest first, in pages, by what a caller asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bench::{Bench, done, failed_for_good, name};
use crate::job::{Job, JobId, Outcome, Status, TenantId};
use crate::store::{Filter, NewJob, PageRequest};

async fn list(bench: &Bench, filter: &Filter) -> Vec<JobId> {
    let page = PageRequest { limit: 100, before: None };
    let page = bench.store().jobs(&TenantId::default(), filter, &page).await.unwrap();
    assert_eq!(page.next, None);
    page.jobs.into_iter().map(|job| job.id).collect()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// What was accepted last is seen first, each as it stands now.
pub async fn jobs_are_listed_newest_first(bench: &Bench) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bench.pending().await.id);
        bench.advance(Duration::from_secs(1));
    }
    bench.claim_one().await;
    let page = PageRequest { limit: 10, before: None };
    let page = bench.store().jobs(&TenantId::default(), &Filter::default(), &page).await.unwrap();
    let mut want: Vec<Job> = Vec::new();
    for id in ids.iter().rev() {
        want.push(bench.record(*id).await.job);
    }
    assert_eq!((page.jobs, page.next), (want, None));
}

/// Whoever follows the pages sees each job once, whatever the size of the pages.
pub async fn pages_have_no_gap_and_no_repeat(bench: &Bench) {
    let mut want: Vec<_> = (0..12).map(|_| bench.job()).collect();
    bench.store().submit(want.clone()).await;
    want.reverse();
    for limit in [1, 2, 3, 5, 6, 12, 50] {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = PageRequest { limit, before };
            let page =
                bench.store().jobs(&TenantId::default(), &Filter::default(), &page).await.unwrap();
            assert!(page.jobs.len() <= limit);
            assert!(!page.jobs.is_empty(), "no page is empty while there is more");
            seen.extend(page.jobs.iter().map(|job| job.id));
            before = page.next;
            if before.is_none() {
                break;
            }
            assert_eq!(before, seen.last().copied());
        }
        assert_eq!(seen, want.iter().map(|job| job.id).collect::<Vec<_>>(), "pages of {limit}");
    }
}

/// Jobs that arrive while somebody turns pages do not shift them.
pub async fn new_jobs_do_not_shift_the_pages(bench: &Bench) {
    let jobs: Vec<_> = (0..4).map(|_| bench.job()).collect();
    bench.store().submit(jobs.clone()).await;
    let store = bench.store();
    let page = |before| PageRequest { limit: 2, before };
    let us = TenantId::default();
    let first = store.jobs(&us, &Filter::default(), &page(None)).await.unwrap();
    bench.advance(Duration::from_secs(1));
    bench.pending().await;
    let second = store.jobs(&us, &Filter::default(), &page(first.next)).await.unwrap();
    let ids: Vec<_> = second.jobs.iter().map(|job| job.id).collect();
    assert_eq!((ids, second.next), (vec![jobs[1].id, jobs[0].id], None));
}

/// Filtered pages hold as many as they may, not what is left of an unfiltered page.
pub async fn filtered_pages_are_full(bench: &Bench) {
    let rare = name("rare");
    for n in 0..30 {
        let kind = if n % 10 == 0 { rare.clone() } else { super::bench::demo() };
        bench.accept(NewJob { kind, ..bench.job() }).await;
    }
    let filter = Filter { kind: Some(rare), ..Filter::default() };
    let page = PageRequest { limit: 2, before: None };
    let us = TenantId::default();
    let first = bench.store().jobs(&us, &filter, &page).await.unwrap();
    assert_eq!(first.jobs.len(), 2);
    let page = PageRequest { before: first.next, ..page };
    let second = bench.store().jobs(&us, &filter, &page).await.unwrap();
    assert_eq!((second.jobs.len(), second.next), (1, None));
}

/// Any of the statuses that are named.
pub async fn list_by_status(bench: &Bench) {
    let completed = bench.ended(done()).await.id;
    let failed = bench.ended(failed_for_good()).await.id;
    let cancelled = bench.ended(Outcome::Cancelled).await.id;
    let running = bench.running().await.job.id;
    let pending = bench.pending().await.id;
    let by = |statuses: &[Status]| Filter { statuses: statuses.to_vec(), ..Filter::default() };
    assert_eq!(list(bench, &by(&[Status::Completed])).await, [completed]);
    assert_eq!(list(bench, &by(&[Status::Failed])).await, [failed]);
    assert_eq!(list(bench, &by(&[Status::Cancelled])).await, [cancelled]);
    assert_eq!(list(bench, &by(&[Status::Running])).await, [running]);
    assert_eq!(list(bench, &by(&[Status::Pending])).await, [pending]);
    assert!(list(bench, &by(&[Status::Waiting])).await.is_empty());
    assert_eq!(list(bench, &by(&[Status::Failed, Status::Pending])).await, [pending, failed]);
    assert_eq!(list(bench, &by(&[])).await.len(), 5);
}

/// Of one kind, in one queue.
pub async fn list_by_kind_and_queue(bench: &Bench) {
    let (kind, queue) = (name("render"), name("slow"));
    let plain = bench.pending().await.id;
    let of_kind = bench.accept(NewJob { kind: kind.clone(), ..bench.job() }).await.id;
    let in_queue = bench.accept(NewJob { queue: queue.clone(), ..bench.job() }).await.id;
    let both = NewJob { kind: kind.clone(), queue: queue.clone(), ..bench.job() };
    let both = bench.accept(both).await.id;
    let by = |kind, queue| Filter { kind, queue, ..Filter::default() };
    assert_eq!(list(bench, &by(Some(kind.clone()), None)).await, [both, of_kind]);
    assert_eq!(list(bench, &by(None, Some(queue.clone()))).await, [both, in_queue]);
    assert_eq!(list(bench, &by(Some(kind), Some(queue))).await, [both]);
    assert_eq!(list(bench, &by(None, None)).await, [both, in_queue, of_kind, plain]);
}

/// With all of the labels that are named, each with its whole value.
pub async fn list_by_labels(bench: &Bench) {
    let odd = r#"%' "_\"#;
    let mut ids = Vec::new();
    for pairs in [&[("a", "1")][..], &[("a", "1"), ("b", "2")], &[("a", "11"), (odd, odd)], &[]] {
        ids.push(bench.accept(NewJob { labels: labels(pairs), ..bench.job() }).await.id);
    }
    let by = |pairs: &[(&str, &str)]| Filter { labels: labels(pairs), ..Filter::default() };
    assert_eq!(list(bench, &by(&[("a", "1")])).await, [ids[1], ids[0]]);
    assert_eq!(list(bench, &by(&[("a", "1"), ("b", "2")])).await, [ids[1]]);
    assert_eq!(list(bench, &by(&[(odd, odd)])).await, [ids[2]]);
    for none in [("a", "2"), ("b", "1"), ("c", ""), ("a", "%"), ("A", "1")] {
        assert!(list(bench, &by(&[none])).await.is_empty(), "{none:?}");
    }
}

/// Accepted at a time or after it.
pub async fn list_by_time_of_acceptance(bench: &Bench) {
    let old = bench.pending().await;
    bench.advance(Duration::from_secs(1));
    let new = bench.pending().await;
    let by = |at| Filter { created_after: Some(at), ..Filter::default() };
    assert_eq!(list(bench, &by(old.created_at)).await, [new.id, old.id]);
    assert_eq!(list(bench, &by(new.created_at)).await, [new.id]);
    bench.advance(Duration::from_secs(1));
    assert!(list(bench, &by(bench.now())).await.is_empty());
}
