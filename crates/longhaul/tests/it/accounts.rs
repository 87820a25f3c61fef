//! Tenants, API keys and the audit log, on both stores.

use std::sync::Arc;
use std::time::Duration;

use longhaul::Clock;
use longhaul::job::{TenantId, Timestamp};
use longhaul::store::accounts::{
    AccountChanges, Accounts, Actor, AuditEntry, AuditFilter, BillingEvent, KeyDigest,
    LimitsChange, NewKey, Scope, Subscription, Tenant, TenantChange, TenantLimits,
};
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;

use crate::postgres::TestDatabase;

const HOUR: Duration = Duration::from_hours(1);

/// Accounts with their clock and the resources that must outlive them.
struct Desk {
    accounts: Arc<dyn Accounts>,
    clock: Clock,
    _keep: Box<dyn std::any::Any>,
}

impl Desk {
    fn sqlite() -> Self {
        let (clock, folder) = (StoreHarness::clock(), tempfile::tempdir().unwrap());
        let store = SqliteStore::open(folder.path().join("jobs.db"), clock.clone()).unwrap();
        Self { accounts: Arc::new(store), clock, _keep: Box::new(folder) }
    }

    async fn postgres() -> Self {
        let (clock, database) = (StoreHarness::clock(), TestDatabase::create().await);
        let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
        Self { accounts: Arc::new(store), clock, _keep: Box::new(database) }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn tenant(&self, id: &str) -> Tenant {
        let tenant = Tenant::new(tenant_id(id), id.to_uppercase(), self.now());
        let entry = self.entry(&format!("tenant-{id}"), "tenant.create", id);
        self.accounts.create_tenant(&tenant, &entry).await.unwrap().unwrap()
    }

    /// Returns an audit entry with this id, by which entries are sorted.
    fn entry(&self, id: &str, action: &str, target: &str) -> AuditEntry {
        AuditEntry {
            id: id.to_owned(),
            at: self.now(),
            tenant: TenantId::default(),
            actor: Actor::Local.to_string(),
            action: action.to_owned(),
            target: target.to_owned(),
            detail: String::new(),
            request_id: "r-1".to_owned(),
        }
    }

    async fn actions(&self) -> Vec<String> {
        let page = self.accounts.audit_log(&everything(100)).await.unwrap();
        page.entries.into_iter().map(|entry| format!("{} {}", entry.action, entry.target)).collect()
    }
}

fn everything(limit: usize) -> AuditFilter {
    AuditFilter { tenant: None, target: None, before: None, limit }
}

fn tenant_id(id: &str) -> TenantId {
    TenantId::new(id).unwrap()
}

fn new_key(id: &str, tenant: &str) -> NewKey {
    NewKey {
        id: id.to_owned(),
        tenant: tenant_id(tenant),
        name: "ci 'quoted'".to_owned(),
        scopes: [Scope::Submit, Scope::Read].into_iter().collect(),
        digest: KeyDigest { server_key: "k1".to_owned(), bytes: [7; 32] },
        expires_at: None,
        requests_per_s: Some(5),
    }
}

async fn tenant_is_created_once(desk: Desk) {
    let made = desk.tenant("acme").await;
    assert_eq!(desk.accounts.tenant(&made.id).await.unwrap(), Some(made.clone()));
    desk.clock.advance(HOUR);
    let other = Tenant::new(made.id.clone(), "another", desk.now());
    let entry = desk.entry("x", "tenant.create", "acme");
    assert_eq!(desk.accounts.create_tenant(&other, &entry).await.unwrap(), None);
    assert_eq!(desk.accounts.tenant(&made.id).await.unwrap(), Some(made));
    assert_eq!(desk.actions().await, ["tenant.create acme"], "what was refused was not done");
    assert_eq!(desk.accounts.tenant(&tenant_id("nobody")).await.unwrap(), None);
}

async fn tenants_are_listed_in_pages(desk: Desk) {
    for id in ["c", "a", "b"] {
        desk.tenant(id).await;
    }
    let first = desk.accounts.tenants(None, 2).await.unwrap();
    let last = desk.accounts.tenants(Some(&first[1].id), 2).await.unwrap();
    let ids: Vec<_> = first.iter().chain(&last).map(|tenant| tenant.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

async fn tenant_change_keeps_unnamed_fields(desk: Desk) {
    desk.tenant("acme").await;
    let limits = LimitsChange { pending_max: Some(Some(10)), ..LimitsChange::default() };
    let change = TenantChange {
        limits,
        subscription: Some(Subscription::PastDue),
        billing_id: Some(Some("cus_1".to_owned())),
        ..TenantChange::default()
    };
    let due = desk.now();
    let entry = desk.entry("x", "tenant.change", "acme");
    desk.accounts.change_tenant(&tenant_id("acme"), &change, &entry).await.unwrap().unwrap();
    desk.clock.advance(HOUR);
    let limits = LimitsChange { running_max: Some(Some(2)), ..LimitsChange::default() };
    let change = TenantChange { limits, name: Some("Acme".to_owned()), ..TenantChange::default() };
    let entry = desk.entry("y", "tenant.change", "acme");
    let changed =
        desk.accounts.change_tenant(&tenant_id("acme"), &change, &entry).await.unwrap().unwrap();
    assert_eq!(desk.accounts.tenant(&tenant_id("acme")).await.unwrap().as_ref(), Some(&changed));
    let limits =
        TenantLimits { pending_max: Some(10), running_max: Some(2), ..TenantLimits::default() };
    assert_eq!((changed.name.as_str(), changed.limits), ("Acme", limits));
    assert_eq!(changed.inactive_since, Some(due));
    assert_eq!(changed.billing_id.as_deref(), Some("cus_1"));
    let nobody = desk.accounts.change_tenant(&tenant_id("nobody"), &change, &entry).await;
    assert_eq!(nobody.unwrap(), None);
}

async fn billing_event_is_applied_once_and_in_order(desk: Desk) {
    use Subscription::{Active, PastDue, Suspended};
    // One customer may pay for several tenants.
    for (id, billing_id) in [("acme", "cus_1"), ("acme-eu", "cus_1"), ("other", "cus_3")] {
        desk.tenant(id).await;
        let billing_id = Some(Some(billing_id.to_owned()));
        let change = TenantChange { billing_id, ..TenantChange::default() };
        let entry = desk.entry(id, "tenant.change", id);
        desk.accounts.change_tenant(&tenant_id(id), &change, &entry).await.unwrap().unwrap();
    }
    let event = |id: &str, subscription, at| BillingEvent {
        id: id.to_owned(),
        billing_id: "cus_1".to_owned(),
        subscription,
        at: Timestamp::from_millis(at),
    };
    let mut told = 0;
    let mut tell = async |event: BillingEvent| {
        told += 1;
        let entry = desk.entry(&format!("z{told}"), "tenant.billed", "acme");
        let tenants = desk.accounts.apply_billing(&event, &entry).await.unwrap();
        tenants.into_iter().map(|tenant| tenant.subscription).collect::<Vec<_>>()
    };
    assert_eq!(tell(event("e2", PastDue, 20)).await, [PastDue, PastDue]);
    assert_eq!(tell(event("e3", Active, 30)).await, [Active, Active]);
    assert_eq!(tell(event("e1", Suspended, 10)).await, [Active, Active]);
    assert_eq!(tell(event("e2", PastDue, 40)).await, [Active, Active]);
    let stranger =
        BillingEvent { billing_id: "cus_2".to_owned(), ..event("e9", Subscription::Suspended, 90) };
    assert_eq!(tell(stranger).await, []);
    let billed = desk.actions().await.iter().filter(|action| action.contains("billed")).count();
    assert_eq!(billed, 4, "what changed nothing was not done");
}

async fn api_key_is_stored_as_created(desk: Desk) {
    let entry = desk.entry("x", "key.create", "k");
    let nobody = desk.accounts.create_key(&new_key("k", "acme"), &entry).await.unwrap();
    assert_eq!(nobody, None, "there is no such tenant");
    desk.tenant("acme").await;
    let new = new_key("k", "acme");
    let made = desk.accounts.create_key(&new, &entry).await.unwrap().unwrap();
    assert_eq!(desk.accounts.key("k").await.unwrap(), Some(made.clone()));
    let again = desk.accounts.create_key(&new, &entry).await.unwrap().unwrap();
    assert_eq!(again.id, made.id, "an answer that was lost may be asked for again");
    assert_eq!(desk.accounts.key("nobody'; --\0").await.unwrap(), None);
    assert_eq!(desk.actions().await, ["key.create k", "tenant.create acme"]);
}

async fn api_keys_are_listed_by_tenant(desk: Desk) {
    desk.tenant("acme").await;
    desk.tenant("other").await;
    for (id, tenant) in [("k3", "acme"), ("k1", "acme"), ("k2", "other")] {
        let entry = desk.entry(id, "key.create", id);
        desk.accounts.create_key(&new_key(id, tenant), &entry).await.unwrap().unwrap();
    }
    let ids = async |tenant: Option<&TenantId>, after, limit| {
        let keys = desk.accounts.keys(tenant, after, limit).await.unwrap();
        keys.into_iter().map(|key| key.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, None, 10).await, ["k1", "k2", "k3"]);
    assert_eq!(ids(None, Some("k1"), 1).await, ["k2"]);
    assert_eq!(ids(Some(&tenant_id("acme")), None, 10).await, ["k1", "k3"]);
    assert_eq!(ids(Some(&tenant_id("nobody")), None, 10).await, [""; 0]);
    // Cursors are client input, and Postgres text cannot contain this character.
    assert_eq!(ids(None, Some("k1\0"), 1).await, ["k2"]);
}

async fn revoked_api_key_stays_revoked(desk: Desk) {
    desk.tenant("acme").await;
    let entry = desk.entry("x", "key.create", "k");
    desk.accounts.create_key(&new_key("k", "acme"), &entry).await.unwrap().unwrap();
    let at = desk.now();
    let entry = desk.entry("y", "key.revoke", "k");
    let ended = desk.accounts.revoke_key("k", &entry).await.unwrap().unwrap();
    assert_eq!(ended.revoked_at, Some(at));
    desk.clock.advance(HOUR);
    let entry = desk.entry("z", "key.revoke", "k");
    let again = desk.accounts.revoke_key("k", &entry).await.unwrap().unwrap();
    assert_eq!(again.revoked_at, Some(at));
    assert_eq!(desk.accounts.revoke_key("nobody", &entry).await.unwrap(), None);
    assert_eq!(desk.actions().await.len(), 3, "the second time nothing was done");
}

async fn rotated_api_key_overlaps_with_its_successor(desk: Desk) {
    desk.tenant("acme").await;
    let entry = desk.entry("x", "key.create", "old");
    desk.accounts.create_key(&new_key("old", "acme"), &entry).await.unwrap().unwrap();
    let ends_at = desk.now().after(HOUR);
    let entry = desk.entry("y", "key.rotate", "old");
    let new = new_key("new", "acme");
    let made = desk.accounts.rotate_key("old", &new, ends_at, &entry).await.unwrap().unwrap();
    assert_eq!(made.rotated_from.as_deref(), Some("old"));
    let old = desk.accounts.key("old").await.unwrap().unwrap();
    assert_eq!(old.expires_at, Some(ends_at));
    assert!(old.is_valid(desk.now()));
    desk.clock.advance(HOUR);
    assert!(!old.is_valid(desk.now()));
    let late = desk.accounts.rotate_key("old", &new_key("late", "acme"), ends_at, &entry).await;
    assert_eq!(late.unwrap(), None, "a key that has ended has no successor");
    // A key that expires earlier is not extended.
    let soon = NewKey { expires_at: Some(desk.now().after(HOUR)), ..new_key("soon", "acme") };
    desk.accounts.create_key(&soon, &entry).await.unwrap().unwrap();
    let later = desk.now().after(HOUR * 5);
    desk.accounts.rotate_key("soon", &new_key("n2", "acme"), later, &entry).await.unwrap().unwrap();
    assert_eq!(desk.accounts.key("soon").await.unwrap().unwrap().expires_at, soon.expires_at);
}

async fn first_api_key_is_created_once(desk: Desk) {
    let entry = desk.entry("x", "key.create", "first");
    let keys: Vec<NewKey> = (0..8).map(|n| new_key(&format!("first{n}"), "default")).collect();
    let makings = keys.iter().map(|key| desk.accounts.create_first_key(key, &entry));
    let made = futures_util::future::join_all(makings).await;
    let made: Vec<_> = made.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(made.len(), 1);
    assert_eq!(desk.accounts.keys(None, None, 10).await.unwrap(), made);
    assert!(desk.accounts.tenant(&TenantId::default()).await.unwrap().is_some());
}

async fn last_use_of_an_api_key_never_moves_back(desk: Desk) {
    desk.tenant("acme").await;
    let entry = desk.entry("x", "key.create", "k");
    desk.accounts.create_key(&new_key("k", "acme"), &entry).await.unwrap().unwrap();
    let (early, late) = (desk.now(), desk.now().after(HOUR));
    for at in [late, early] {
        let used = [("k".to_owned(), at), ("nobody".to_owned(), at)];
        desk.accounts.record_key_use(&used).await.unwrap();
    }
    assert_eq!(desk.accounts.key("k").await.unwrap().unwrap().last_used_at, Some(late));
}

async fn changed_keys_and_tenants_are_reported(desk: Desk) {
    desk.tenant("acme").await;
    let entry = desk.entry("x", "key.create", "k");
    desk.accounts.create_key(&new_key("k", "acme"), &entry).await.unwrap().unwrap();
    desk.clock.advance(HOUR);
    let since = desk.now();
    assert_eq!(desk.accounts.changed_since(since).await.unwrap(), AccountChanges::default());
    let digest = KeyDigest { server_key: "k2".to_owned(), bytes: [8; 32] };
    desk.accounts.replace_key_digest("k", &digest).await.unwrap();
    desk.accounts.record_key_use(&[("k".to_owned(), since)]).await.unwrap();
    assert_eq!(desk.accounts.changed_since(since).await.unwrap(), AccountChanges::default());
    assert_eq!(desk.accounts.key("k").await.unwrap().unwrap().digest, digest);
    desk.accounts.revoke_key("k", &entry).await.unwrap();
    let suspend =
        TenantChange { subscription: Some(Subscription::Suspended), ..TenantChange::default() };
    desk.accounts.change_tenant(&tenant_id("acme"), &suspend, &entry).await.unwrap();
    let changed = AccountChanges { keys: vec!["k".to_owned()], tenants: vec![tenant_id("acme")] };
    assert_eq!(desk.accounts.changed_since(since).await.unwrap(), changed);
}

async fn audit_log_is_listed_latest_first_and_by_target(desk: Desk) {
    let mut entries = Vec::new();
    for n in 0..5 {
        let mut entry = desk.entry(&format!("a{n}"), "job.cancel", &format!("job{}", n % 2));
        if n == 4 {
            entry.tenant = tenant_id("acme");
        }
        entries.push(entry);
    }
    desk.accounts.record_audit(&entries).await.unwrap();
    desk.accounts.record_audit(&entries).await.unwrap();
    let ids = async |filter: AuditFilter| {
        let page = desk.accounts.audit_log(&filter).await.unwrap();
        (page.entries.into_iter().map(|entry| entry.id).collect::<Vec<_>>(), page.next)
    };
    let (first, next) = ids(everything(3)).await;
    assert_eq!((first, next.as_deref()), (vec!["a4".into(), "a3".into(), "a2".into()], Some("a2")));
    let (rest, next) = ids(AuditFilter { before: next, ..everything(3) }).await;
    assert_eq!((rest, next), (vec!["a1".to_owned(), "a0".to_owned()], None));
    let odd = AuditFilter { before: Some("a1\0".to_owned()), ..everything(9) };
    assert_eq!(ids(odd).await.0, ["a1", "a0"]);
    let of_tenant = AuditFilter { tenant: Some(TenantId::default()), ..everything(9) };
    assert_eq!(ids(of_tenant.clone()).await.0, ["a3", "a2", "a1", "a0"]);
    let of_job = AuditFilter { target: Some("job0".to_owned()), ..everything(9) };
    assert_eq!(ids(of_job).await.0, ["a4", "a2", "a0"]);
    let of_both = AuditFilter { target: Some("job0".to_owned()), ..of_tenant };
    assert_eq!(ids(of_both).await.0, ["a2", "a0"]);
    let later = desk.now().after(HOUR);
    assert_eq!(desk.accounts.prune_audit(desk.now(), 9).await.unwrap(), 0);
    assert_eq!(desk.accounts.prune_audit(later, 2).await.unwrap(), 2);
    assert_eq!(ids(everything(9)).await.0, ["a4", "a3", "a2"]);
}

crate::support::on_both_stores! {
    tenant_is_created_once,
    tenants_are_listed_in_pages,
    tenant_change_keeps_unnamed_fields,
    billing_event_is_applied_once_and_in_order,
    api_key_is_stored_as_created,
    api_keys_are_listed_by_tenant,
    revoked_api_key_stays_revoked,
    rotated_api_key_overlaps_with_its_successor,
    first_api_key_is_created_once,
    last_use_of_an_api_key_never_moves_back,
    changed_keys_and_tenants_are_reported,
    audit_log_is_listed_latest_first_and_by_target,
}
