//! Lists of jobs: newest first, paged and filtered.

use std::collections::BTreeMap;
use std::time::Duration;

use super::harness::{StoreHarness, done, failed_for_good, name};
use crate::job::{Job, JobId, Outcome, Status, TenantId};
use crate::store::{Filter, NewJob, PageRequest};

async fn list(harness: &StoreHarness, filter: &Filter) -> Vec<JobId> {
    let page = PageRequest::new(100, None);
    let page = harness.store().jobs(&TenantId::default(), filter, &page).await.unwrap();
    assert_eq!(page.next, None);
    page.jobs.into_iter().map(|job| job.id).collect()
}

/// Follows the cursors to the last page. Returns the ids on each page.
async fn pages(
    harness: &StoreHarness,
    filter: &Filter,
    limit: usize,
    examined_max: usize,
) -> Vec<Vec<JobId>> {
    let mut page = PageRequest { examined_max, ..PageRequest::new(limit, None) };
    let mut pages = Vec::new();
    loop {
        let found = harness.store().jobs(&TenantId::default(), filter, &page).await.unwrap();
        assert!(found.jobs.len() <= limit);
        pages.push(found.jobs.iter().map(|job| job.id).collect());
        let Some(next) = found.next else { return pages };
        assert!(page.before.is_none_or(|before| next < before), "every page moves the cursor");
        page.before = Some(next);
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// The newest job comes first, and each job has its current state.
pub async fn jobs_are_listed_newest_first(harness: &StoreHarness) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(harness.pending().await.id);
        harness.advance(Duration::from_secs(1));
    }
    harness.claim_one().await;
    let page = PageRequest::new(10, None);
    let page = harness.store().jobs(&TenantId::default(), &Filter::default(), &page).await.unwrap();
    let mut want: Vec<Job> = Vec::new();
    for id in ids.iter().rev() {
        want.push(harness.record(*id).await.job);
    }
    assert_eq!((page.jobs, page.next), (want, None));
}

/// A client that follows the cursors sees each job once, regardless of the page size.
pub async fn pages_have_no_gap_and_no_repeat(harness: &StoreHarness) {
    let mut want: Vec<_> = (0..12).map(|_| harness.job()).collect();
    harness.store().submit(want.clone()).await;
    want.reverse();
    for limit in [1, 2, 3, 5, 6, 12, 50] {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = PageRequest::new(limit, before);
            let page = harness
                .store()
                .jobs(&TenantId::default(), &Filter::default(), &page)
                .await
                .unwrap();
            assert!(page.jobs.len() <= limit);
            assert!(!page.jobs.is_empty(), "no page is empty");
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

/// Jobs that are submitted while a client reads pages do not shift the pages.
pub async fn new_jobs_do_not_shift_the_pages(harness: &StoreHarness) {
    let jobs: Vec<_> = (0..4).map(|_| harness.job()).collect();
    harness.store().submit(jobs.clone()).await;
    let store = harness.store();
    let page = |before| PageRequest::new(2, before);
    let us = TenantId::default();
    let first = store.jobs(&us, &Filter::default(), &page(None)).await.unwrap();
    harness.advance(Duration::from_secs(1));
    harness.pending().await;
    let second = store.jobs(&us, &Filter::default(), &page(first.next)).await.unwrap();
    let ids: Vec<_> = second.jobs.iter().map(|job| job.id).collect();
    assert_eq!((ids, second.next), (vec![jobs[1].id, jobs[0].id], None));
}

/// Filtered pages are full: the filter applies before the page size.
pub async fn filtered_pages_are_full(harness: &StoreHarness) {
    let rare = name("rare");
    for n in 0..30 {
        let kind = if n % 10 == 0 { rare.clone() } else { super::harness::demo() };
        harness.accept(NewJob { kind, ..harness.job() }).await;
    }
    let filter = Filter { kind: Some(rare), ..Filter::default() };
    let page = PageRequest::new(2, None);
    let us = TenantId::default();
    let first = harness.store().jobs(&us, &filter, &page).await.unwrap();
    assert_eq!(first.jobs.len(), 2);
    let page = PageRequest { before: first.next, ..page };
    let second = harness.store().jobs(&us, &filter, &page).await.unwrap();
    assert_eq!((second.jobs.len(), second.next), (1, None));
}

/// A page examines a bounded number of jobs: if none of them matches, it is empty and has a next page.
pub async fn pages_without_matches_are_empty_and_lead_to_the_end(harness: &StoreHarness) {
    for _ in 0..12 {
        harness.ended(done()).await;
    }
    let parent = harness.pending().await.id;
    for _ in 0..12 {
        harness.accept(NewJob { parent_id: Some(parent), ..harness.job() }).await;
    }
    let by = |statuses: &[Status], parent| Filter {
        statuses: statuses.to_vec(),
        labels: labels(&[("no", "match")]),
        parent,
        ..Filter::default()
    };
    for (filter, jobs) in [
        (by(&[], None), 25),
        (by(&[Status::Completed], None), 12),
        (by(&[Status::Pending], None), 13),
        (by(&[], Some(parent)), 12),
        (by(&[Status::Pending], Some(parent)), 12),
    ] {
        for examined_max in [1, 5, 24] {
            let pages = pages(harness, &filter, 100, examined_max).await;
            assert!(pages.iter().all(Vec::is_empty), "{pages:?}");
            let least = jobs / examined_max;
            assert!((least..=least + 1).contains(&pages.len()), "{filter:?}: {}", pages.len());
        }
    }
}

/// A client that follows the cursors sees each matching job once and in order, regardless of how many jobs a page examines.
pub async fn short_pages_contain_every_match_once(harness: &StoreHarness) {
    let parent = harness.pending().await.id;
    for number in 0..30 {
        let (kind, label) = if number % 7 == 0 { ("rare", "red") } else { ("demo", "blue") };
        let new = NewJob {
            kind: name(kind),
            labels: labels(&[("colour", label)]),
            parent_id: (number % 2 == 0).then_some(parent),
            ..harness.job()
        };
        let id = harness.accept(new).await.id;
        if number % 3 == 0 {
            harness.store().cancel(&TenantId::default(), id).await.unwrap();
        }
        harness.advance(Duration::from_secs(1));
    }
    harness.claim(5).await;
    let half = harness.now().before(Duration::from_secs(15));
    let rare = Filter { kind: Some(name("rare")), ..Filter::default() };
    let red = Filter { labels: labels(&[("colour", "red")]), ..Filter::default() };
    let unfinished = vec![Status::Pending, Status::Running, Status::Cancelled];
    for filter in [
        Filter { statuses: vec![Status::Cancelled], ..rare.clone() },
        Filter { statuses: vec![Status::Pending], ..red.clone() },
        Filter { statuses: vec![Status::Running], ..red.clone() },
        Filter { statuses: unfinished, ..red.clone() },
        Filter { parent: Some(parent), ..red.clone() },
        Filter { parent: Some(parent), statuses: vec![Status::Pending], ..Filter::default() },
        Filter { created_after: Some(half), ..Filter::default() },
        Filter { queue: Some(name("default")), ..Filter::default() },
        Filter::default(),
        rare,
        red,
    ] {
        let want = list(harness, &filter).await;
        assert!(!want.is_empty() || filter.statuses == [Status::Running], "{filter:?}");
        for (limit, examined_max) in [(1, 1), (1, 4), (3, 2), (2, 7), (100, 9), (100, 100)] {
            let pages = pages(harness, &filter, limit, examined_max).await;
            assert_eq!(pages.concat(), want, "{filter:?}, {limit} of {examined_max}");
        }
    }
}

/// A status filter matches any of its statuses.
pub async fn list_by_status(harness: &StoreHarness) {
    let completed = harness.ended(done()).await.id;
    let failed = harness.ended(failed_for_good()).await.id;
    let cancelled = harness.ended(Outcome::Cancelled).await.id;
    let running = harness.running().await.job.id;
    let pending = harness.pending().await.id;
    let by = |statuses: &[Status]| Filter { statuses: statuses.to_vec(), ..Filter::default() };
    assert_eq!(list(harness, &by(&[Status::Completed])).await, [completed]);
    assert_eq!(list(harness, &by(&[Status::Failed])).await, [failed]);
    assert_eq!(list(harness, &by(&[Status::Cancelled])).await, [cancelled]);
    assert_eq!(list(harness, &by(&[Status::Running])).await, [running]);
    assert_eq!(list(harness, &by(&[Status::Pending])).await, [pending]);
    assert!(list(harness, &by(&[Status::Waiting])).await.is_empty());
    assert_eq!(list(harness, &by(&[Status::Failed, Status::Pending])).await, [pending, failed]);
    assert_eq!(list(harness, &by(&[])).await.len(), 5);
}

/// Kind and queue filters match exactly.
pub async fn list_by_kind_and_queue(harness: &StoreHarness) {
    let (kind, queue) = (name("render"), name("slow"));
    let plain = harness.pending().await.id;
    let of_kind = harness.accept(NewJob { kind: kind.clone(), ..harness.job() }).await.id;
    let in_queue = harness.accept(NewJob { queue: queue.clone(), ..harness.job() }).await.id;
    let both = NewJob { kind: kind.clone(), queue: queue.clone(), ..harness.job() };
    let both = harness.accept(both).await.id;
    let by = |kind, queue| Filter { kind, queue, ..Filter::default() };
    assert_eq!(list(harness, &by(Some(kind.clone()), None)).await, [both, of_kind]);
    assert_eq!(list(harness, &by(None, Some(queue.clone()))).await, [both, in_queue]);
    assert_eq!(list(harness, &by(Some(kind), Some(queue))).await, [both]);
    assert_eq!(list(harness, &by(None, None)).await, [both, in_queue, of_kind, plain]);
}

/// A label filter matches jobs with all of the labels, each with its exact value.
pub async fn list_by_labels(harness: &StoreHarness) {
    let odd = r#"%' "_\"#;
    let mut ids = Vec::new();
    for pairs in [&[("a", "1")][..], &[("a", "1"), ("b", "2")], &[("a", "11"), (odd, odd)], &[]] {
        ids.push(harness.accept(NewJob { labels: labels(pairs), ..harness.job() }).await.id);
    }
    let by = |pairs: &[(&str, &str)]| Filter { labels: labels(pairs), ..Filter::default() };
    assert_eq!(list(harness, &by(&[("a", "1")])).await, [ids[1], ids[0]]);
    assert_eq!(list(harness, &by(&[("a", "1"), ("b", "2")])).await, [ids[1]]);
    assert_eq!(list(harness, &by(&[(odd, odd)])).await, [ids[2]]);
    for none in [("a", "2"), ("b", "1"), ("c", ""), ("a", "%"), ("A", "1")] {
        assert!(list(harness, &by(&[none])).await.is_empty(), "{none:?}");
    }
}

/// A time filter matches jobs accepted at or after the time.
pub async fn list_by_time_of_acceptance(harness: &StoreHarness) {
    let old = harness.pending().await;
    harness.advance(Duration::from_secs(1));
    let new = harness.pending().await;
    let by = |at| Filter { created_after: Some(at), ..Filter::default() };
    assert_eq!(list(harness, &by(old.created_at)).await, [new.id, old.id]);
    assert_eq!(list(harness, &by(new.created_at)).await, [new.id]);
    harness.advance(Duration::from_secs(1));
    assert!(list(harness, &by(harness.now())).await.is_empty());
}
