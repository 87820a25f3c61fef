//! Endpoints and webhook deliveries, on both stores.

use std::sync::Arc;

use longhaul::job::{
    DELIVERY_KIND, Delivery, EventFilter, EventType, Job, Receiver, Status, TenantId, Webhook,
    WebhookFormat,
};
use longhaul::store::accounts::{Actor, AuditEntry};
use longhaul::store::conformance::{
    StoreHarness, done, failed, failed_for_good, json, settlement, tenant,
};
use longhaul::store::endpoints::{Endpoint, EndpointChange, Endpoints};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{
    Claim, Filter, KindCapacity, Lease, NewJob, PageRequest, QueueCapacity, StoreError,
};

use crate::postgres::TestDatabase;

struct Desk {
    harness: StoreHarness,
    endpoints: Arc<dyn Endpoints>,
}

impl Desk {
    fn sqlite() -> Self {
        let (clock, folder) = (StoreHarness::clock(), tempfile::tempdir().unwrap());
        let path = folder.path().join("jobs.db");
        let store = Arc::new(SqliteStore::open(path, clock.clone()).unwrap());
        Self { harness: StoreHarness::of(store.clone(), clock).keeping(folder), endpoints: store }
    }

    async fn postgres() -> Self {
        let (clock, database) = (StoreHarness::clock(), TestDatabase::create().await);
        let store = Arc::new(PostgresStore::open(&database.url(), clock.clone()).await.unwrap());
        Self { harness: StoreHarness::of(store.clone(), clock).keeping(database), endpoints: store }
    }

    fn entry(&self, id: &str) -> AuditEntry {
        AuditEntry {
            id: id.to_owned(),
            at: self.harness.now(),
            tenant: TenantId::default(),
            actor: Actor::Local.to_string(),
            action: "endpoint.create".to_owned(),
            target: id.to_owned(),
            detail: String::new(),
            request_id: "r-1".to_owned(),
        }
    }

    fn new_endpoint(&self, tenant: &TenantId, id: &str, events: &[&str]) -> Endpoint {
        Endpoint {
            tenant: tenant.clone(),
            id: id.to_owned(),
            url: format!("https://example.com/{id}"),
            description: "for tests".to_owned(),
            events: EventFilter::new(events.iter().copied()).unwrap(),
            full: false,
            enabled: true,
            disabled_reason: None,
            sealed_secret: "sealed".to_owned(),
            former_secret: None,
            created_at: self.harness.now(),
            changed_at: self.harness.now(),
        }
    }

    async fn endpoint(&self, tenant: &TenantId, id: &str, events: &[&str]) -> Endpoint {
        let endpoint = self.new_endpoint(tenant, id, events);
        self.endpoints.create_endpoint(&endpoint, &self.entry(id)).await.unwrap();
        endpoint
    }

    async fn change(&self, id: &str, change: EndpointChange) -> Option<Endpoint> {
        let tenant = TenantId::default();
        self.endpoints.change_endpoint(&tenant, id, &change, &self.entry(id)).await.unwrap()
    }

    /// Returns all deliveries for a tenant's jobs, oldest first.
    async fn owed_by(&self, tenant: &TenantId) -> Vec<(Job, Delivery)> {
        let (store, outbox) = (self.harness.store(), tenant.outbox());
        let page = PageRequest::new(1_000, None);
        let mut jobs = store.jobs(&outbox, &Filter::default(), &page).await.unwrap().jobs;
        jobs.reverse();
        let mut owed = Vec::new();
        for job in jobs {
            let input = store.input(&outbox, job.id).await.unwrap();
            owed.push((job, input.to().unwrap()));
        }
        owed
    }

    async fn owed(&self) -> Vec<(Job, Delivery)> {
        self.owed_by(&TenantId::default()).await
    }

    /// Returns the receiver and event of each delivery.
    async fn told(&self) -> Vec<String> {
        let word = |(_, delivery): (Job, Delivery)| {
            let to = match &delivery.to {
                Receiver::Endpoint(id) => id.clone(),
                Receiver::Webhook(webhook) => webhook.url.clone(),
            };
            format!("{to} {}", delivery.event)
        };
        self.owed().await.into_iter().map(word).collect()
    }

    fn hooked(&self, events: &[&str]) -> NewJob {
        let webhook = Webhook {
            url: "https://example.com/own".to_owned(),
            events: EventFilter::new(events.iter().copied()).unwrap(),
            sealed_secret: Some("sealed".to_owned()),
            full: false,
            format: WebhookFormat::Standard,
        };
        NewJob { webhook: Some(Box::new(webhook)), ..self.harness.job() }
    }

    async fn claim_deliveries(&self, limit: usize) -> Vec<Lease> {
        let kind = longhaul::job::Name::new(DELIVERY_KIND).unwrap();
        let room = KindCapacity { kind, capacity: limit, code_version: None };
        let rooms = Some(QueueCapacity { each: limit, ..QueueCapacity::default() });
        let want = Claim { kinds: vec![room], queue_capacity: rooms, ..self.harness.want(limit) };
        self.harness.store().claim(&want).await.unwrap().leases
    }
}

const OWN: &str = "https://example.com/own";

async fn every_transition_adds_one_delivery(desk: Desk) {
    let (harness, id) = (&desk.harness, desk.hooked(&[]));
    let lease = harness.running_as(id).await;
    harness.phase(&lease, "reading").await.unwrap();
    harness.settle(&lease, failed()).await.unwrap();
    let lease = harness.claim_one().await;
    harness.settle(&lease, done()).await.unwrap();
    // A repeated settlement, sent because the response was lost, adds no delivery.
    harness.settle(&lease, done()).await.unwrap();
    let told = desk.told().await;
    let expected = ["pending", "running", "phase", "pending", "running", "completed"];
    assert_eq!(told, expected.map(|word| format!("{OWN} job.{word}")));
    let owed = desk.owed().await;
    let versions: Vec<u64> =
        owed.iter().map(|(_, delivery)| delivery.job.as_ref().unwrap().version).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6]);
    let phases: Vec<_> =
        owed.iter().map(|(_, delivery)| delivery.job.as_ref().unwrap().phase.clone()).collect();
    assert_eq!(phases[2].as_deref(), Some("reading"));
    assert!(owed.iter().all(|(job, delivery)| {
        job.parent_id == Some(lease.job.id)
            && job.tenant.as_str() == "~default"
            && job.status == Status::Pending
            && delivery.message_id == format!("msg_{}", job.id)
    }));
    let (_, last) = owed.last().unwrap();
    assert_eq!(last.result.as_ref().unwrap().get(), r#"{"pages":12}"#);
    assert_eq!(last.job.as_ref().unwrap().status, Status::Completed);
}

async fn tenant_and_event_filter_select_endpoints(desk: Desk) {
    let (us, other) = (TenantId::default(), tenant("other"));
    desk.endpoint(&us, "ep_all", &[]).await;
    desk.endpoint(&us, "ep_ends", &["job.completed", "job.failed"]).await;
    desk.endpoint(&other, "ep_other", &[]).await;
    desk.harness.ended(failed_for_good()).await;
    let told = desk.told().await;
    let expected =
        ["ep_all job.pending", "ep_all job.running", "ep_all job.failed", "ep_ends job.failed"];
    let (mut told, mut expected) = (told, expected.map(str::to_owned).to_vec());
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    assert!(desk.owed_by(&other).await.is_empty());
}

async fn cancel_resume_fork_and_lost_leases_add_deliveries(desk: Desk) {
    let (harness, us) = (&desk.harness, TenantId::default());
    let pending = harness.accept(desk.hooked(&[])).await;
    harness.store().cancel(&us, pending.id).await.unwrap();
    harness.store().resume(&us, pending.id).await.unwrap();
    let lease = harness.claim_one().await;
    harness.store().cancel(&us, lease.job.id).await.unwrap();
    harness.lose(&lease).await;
    harness.advance(longhaul::store::conformance::TICK);
    let forked = harness.id();
    harness.store().fork(&us, pending.id, forked, None).await.unwrap();
    let told = desk.told().await;
    let expected = ["pending", "cancelled", "pending", "running", "phase", "cancelled", "pending"];
    assert_eq!(told, expected.map(|word| format!("{OWN} job.{word}")));
    let owed = desk.owed().await;
    assert_eq!(owed.last().unwrap().0.parent_id, Some(forked));
}

async fn large_result_is_left_out_of_the_delivery(desk: Desk) {
    let lease = desk.harness.running_as(desk.hooked(&["job.completed"])).await;
    let large = json(&format!("\"{}\"", "x".repeat(20_000)));
    let end = settlement(&lease, longhaul::job::Outcome::Completed(large));
    desk.harness.settle_as(end).await.unwrap();
    let owed = desk.owed().await;
    assert_eq!(owed.len(), 1);
    assert!(owed[0].1.result.is_none());
}

async fn endpoint_change_applies_from_the_next_transition(desk: Desk) {
    let us = TenantId::default();
    desk.endpoint(&us, "ep_1", &["job.pending"]).await;
    desk.harness.pending().await;
    let off = EndpointChange { enabled: Some((false, None)), ..Default::default() };
    assert!(!desk.change("ep_1", off).await.unwrap().enabled);
    desk.harness.pending().await;
    let on = EndpointChange {
        enabled: Some((true, None)),
        events: Some(EventFilter::new(["job.pending", "job.cancelled"]).unwrap()),
        ..Default::default()
    };
    desk.change("ep_1", on).await.unwrap();
    let job = desk.harness.pending().await;
    desk.harness.store().cancel(&us, job.id).await.unwrap();
    assert!(desk.endpoints.delete_endpoint(&us, "ep_1", &desk.entry("d")).await.unwrap());
    assert!(!desk.endpoints.delete_endpoint(&us, "ep_1", &desk.entry("e")).await.unwrap());
    desk.harness.pending().await;
    assert_eq!(desk.told().await, ["ep_1 job.pending", "ep_1 job.pending", "ep_1 job.cancelled"]);
}

async fn endpoints_are_isolated_by_tenant(desk: Desk) {
    let (us, other) = (TenantId::default(), tenant("other"));
    let ours = desk.endpoint(&us, "ep_1", &[]).await;
    desk.endpoint(&us, "ep_2", &[]).await;
    desk.endpoint(&other, "ep_3", &[]).await;
    let store = &desk.endpoints;
    assert_eq!(store.endpoint(&us, "ep_1").await.unwrap(), Some(ours));
    assert_eq!(store.endpoint(&other, "ep_1").await.unwrap(), None);
    let ids = async |tenant: &TenantId, after: Option<&str>, limit| -> Vec<String> {
        let found = store.endpoints(tenant, after, limit).await.unwrap();
        found.into_iter().map(|endpoint| endpoint.id).collect()
    };
    assert_eq!(ids(&us, None, 10).await, ["ep_1", "ep_2"]);
    assert_eq!(ids(&us, Some("ep_1"), 10).await, ["ep_2"]);
    assert_eq!(ids(&us, None, 1).await, ["ep_1"]);
    let change = EndpointChange { url: Some("https://evil".to_owned()), ..Default::default() };
    let changed = store.change_endpoint(&other, "ep_1", &change, &desk.entry("x")).await.unwrap();
    assert_eq!(changed, None);
    assert!(!store.delete_endpoint(&other, "ep_1", &desk.entry("y")).await.unwrap());
}

async fn endpoint_secret_is_rotated(desk: Desk) {
    let us = TenantId::default();
    desk.endpoint(&us, "ep_1", &[]).await;
    let until = desk.harness.now();
    let rotation =
        EndpointChange { secret: Some(("other".to_owned(), until)), ..Default::default() };
    desk.change("ep_1", rotation).await.unwrap();
    let found = desk.endpoints.endpoint(&us, "ep_1").await.unwrap().unwrap();
    assert_eq!(found.sealed_secret, "other");
    assert_eq!(found.former_secret, Some(("sealed".to_owned(), until)));
}

/// Lists, counts and usage of a tenant exclude deliveries, and so do claims for jobs.
async fn deliveries_are_excluded_from_jobs_of_the_tenant(desk: Desk) {
    let (harness, us) = (&desk.harness, TenantId::default());
    let job = harness.accept(desk.hooked(&[])).await;
    let page = PageRequest::new(10, None);
    let listed = harness.store().jobs(&us, &Filter::default(), &page).await.unwrap().jobs;
    assert_eq!(listed.into_iter().map(|job| job.id).collect::<Vec<_>>(), [job.id]);
    assert_eq!(harness.store().count_pending(&us, None, 10).await.unwrap(), 1);
    assert_eq!(harness.claim(10).await.len(), 1);
    let leases = desk.claim_deliveries(10).await;
    assert_eq!(leases.len(), 2);
    let delivery: Delivery = leases[0].input.to().unwrap();
    assert_eq!(delivery.event, EventType::Pending);
    for lease in &leases {
        harness.settle(lease, done()).await.unwrap();
    }
    let after = desk.owed().await;
    assert!(after.iter().all(|(job, _)| job.status == Status::Completed));
    assert_eq!(after.len(), 2, "what is told of is not told of itself");
}

async fn deliveries_are_found_by_their_job(desk: Desk) {
    let harness = &desk.harness;
    let first = harness.accept(desk.hooked(&[])).await;
    harness.accept(desk.hooked(&[])).await;
    let lease = desk.claim_deliveries(1).await.remove(0);
    assert_eq!(lease.job.parent_id, Some(first.id));
    let find = async |statuses: Vec<Status>| -> usize {
        let filter = Filter { parent: Some(first.id), statuses, ..Filter::default() };
        let page = PageRequest::new(10, None);
        let outbox = TenantId::default().outbox();
        harness.store().jobs(&outbox, &filter, &page).await.unwrap().jobs.len()
    };
    assert_eq!(find(vec![]).await, 1);
    assert_eq!(find(vec![Status::Running]).await, 1);
    assert_eq!(find(vec![Status::Pending, Status::Failed]).await, 0);
    harness.settle(&lease, failed_for_good()).await.unwrap();
    assert_eq!(find(vec![Status::Pending, Status::Failed]).await, 1);
    let none = harness.store().job(&TenantId::default(), lease.job.id).await;
    assert!(matches!(none, Err(StoreError::NotFound)));
}

/// Stores process batches by other statements than single jobs.
async fn batch_adds_deliveries_for_each_of_its_jobs(desk: Desk) {
    let harness = &desk.harness;
    let known = NewJob { idempotency_key: Some("k".to_owned()), ..desk.hooked(&[]) };
    harness.accept(known.clone()).await;
    let mut jobs: Vec<NewJob> = (0..20).map(|_| desk.hooked(&[])).collect();
    // A known idempotency key creates no job and no delivery.
    jobs.push(NewJob { id: harness.id(), ..known });
    jobs.push(harness.job());
    let answers = harness.store().submit(jobs).await;
    assert_eq!(answers.iter().filter(|answer| answer.as_ref().unwrap().created).count(), 21);
    assert_eq!(desk.owed().await.len(), 21);
    let leases = harness.claim(50).await;
    assert_eq!(desk.owed().await.len(), 42);
    let ends = leases.iter().map(|lease| settlement(lease, done())).collect();
    let settled = harness.store().settle(ends).await;
    assert!(settled.iter().all(Result::is_ok));
    assert_eq!(desk.owed().await.len(), 63);
}

/// One endpoint has many deliveries queued before the only one of another, which is still claimed
/// in the first round.
async fn deliveries_are_claimed_round_robin_within_endpoint_capacity(desk: Desk) {
    let harness = &desk.harness;
    let claim = async |limit, each, known: &[(&str, usize)]| {
        let name = |text: &str| longhaul::job::Name::new(text).unwrap();
        let room = KindCapacity { kind: name(DELIVERY_KIND), capacity: limit, code_version: None };
        let known = known.iter().map(|(queue, room)| (name(queue), *room)).collect();
        let rooms = Some(QueueCapacity { each, known });
        let want = Claim { kinds: vec![room], queue_capacity: rooms, ..harness.want(limit) };
        let leases = harness.store().claim(&want).await.unwrap().leases;
        leases.iter().map(|lease| lease.job.queue.to_string()).collect::<Vec<_>>()
    };
    let (acme, other) = (tenant("acme"), tenant("other"));
    desk.endpoint(&acme, "ep_a", &["job.pending"]).await;
    let submit = async |tenant: &TenantId, jobs| {
        for _ in 0..jobs {
            harness.accept(NewJob { tenant: tenant.clone(), ..harness.job() }).await;
        }
    };
    submit(&acme, 9).await;
    desk.endpoint(&acme, "ep_b", &["job.pending"]).await;
    desk.endpoint(&other, "ep_c", &["job.pending"]).await;
    submit(&acme, 1).await;
    submit(&other, 1).await;
    let jobs = Claim { queue_capacity: None, ..harness.want(2) };
    harness.store().claim(&jobs).await.unwrap();
    assert_eq!(claim(2, 4, &[]).await, ["ep_a", "ep_b"]);
    assert_eq!(claim(2, 4, &[("ep_a", 1)]).await, ["ep_c", "ep_a"], "where the last claim ended");
    assert_eq!(claim(9, 4, &[("ep_a", 0)]).await, [""; 0], "no room");
    assert_eq!(claim(9, 0, &[]).await, [""; 0], "nobody is known");
    assert_eq!(claim(9, 0, &[("ep_a", 3)]).await, ["ep_a"; 3]);
    assert_eq!(claim(2, 9, &[]).await, ["ep_a"; 2]);
    assert_eq!(claim(9, 9, &[]).await, ["ep_a"; 3]);
}

/// Claims of deliveries do not affect the round-robin order of tenants.
async fn delivery_claims_do_not_affect_tenant_fairness(desk: Desk) {
    let harness = &desk.harness;
    let tenants = ["a", "b", "c"].map(tenant);
    for tenant in &tenants {
        for _ in 0..2 {
            harness.accept(NewJob { tenant: tenant.clone(), ..desk.hooked(&[]) }).await;
        }
    }
    let mut served = Vec::new();
    for _ in 0..6 {
        served.extend(harness.claim(1).await.iter().map(|lease| lease.job.tenant.to_string()));
        desk.claim_deliveries(1).await;
    }
    assert_eq!(served, ["a", "b", "c", "a", "b", "c"]);
}

async fn new_delivery_notifies_the_outbox(desk: Desk) {
    let told = desk.harness.store().outbox_notify();
    desk.harness.pending().await;
    desk.harness.accept(desk.hooked(&[])).await;
    told.notified().await;
}

crate::support::on_both_stores! {
    every_transition_adds_one_delivery,
    tenant_and_event_filter_select_endpoints,
    cancel_resume_fork_and_lost_leases_add_deliveries,
    large_result_is_left_out_of_the_delivery,
    endpoint_change_applies_from_the_next_transition,
    endpoints_are_isolated_by_tenant,
    endpoint_secret_is_rotated,
    deliveries_are_excluded_from_jobs_of_the_tenant,
    deliveries_are_found_by_their_job,
    batch_adds_deliveries_for_each_of_its_jobs,
    deliveries_are_claimed_round_robin_within_endpoint_capacity,
    delivery_claims_do_not_affect_tenant_fairness,
    new_delivery_notifies_the_outbox,
}

/// Changes by one process apply in others after the propagation delay.
#[tokio::test(flavor = "multi_thread")]
async fn new_endpoint_of_another_process_gets_deliveries() {
    let (clock, database) = (StoreHarness::clock(), TestDatabase::create().await);
    let open = async || PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let (one, other) = (Arc::new(open().await), Arc::new(open().await));
    let there = Desk { harness: StoreHarness::of(other.clone(), clock.clone()), endpoints: other };
    there.harness.pending().await;
    let here = Desk { harness: StoreHarness::of(one.clone(), clock.clone()), endpoints: one };
    here.endpoint(&TenantId::default(), "ep_1", &["job.pending"]).await;
    clock.advance(here.endpoints.endpoint_propagation());
    there.harness.pending().await;
    assert_eq!(there.told().await, ["ep_1 job.pending"]);
}
