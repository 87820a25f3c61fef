use std::sync::Arc;
use std::time::Duration;

use longhaul::blob::Keyring;
use longhaul::store::accounts::{Scope, Subscription, TenantChange};
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, TenantId, Timestamp};

use super::{AuditContext, Auth, AuthError, AuthSettings, IssuedKey, KeySpec};

/// Two replicas on one store, with a manual clock.
struct TwoReplicas {
    clock: Clock,
    here: Auth,
    there: Auth,
}

fn settings() -> AuthSettings {
    AuthSettings { require_keys: true, shared: true, ..AuthSettings::default() }
}

impl TwoReplicas {
    fn new() -> Self {
        Self::with(settings(), &Arc::new(Keyring::generate()))
    }

    fn with(settings: AuthSettings, keyring: &Arc<Keyring>) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_763_000_000_000));
        let store = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
        let auth = |store: Arc<SqliteStore>| {
            Auth::new(store, Arc::clone(keyring), clock.clone(), settings)
        };
        Self { here: auth(store.clone()), there: auth(store), clock }
    }

    async fn key(&self) -> IssuedKey {
        let issued = self.here.create_first_key().await.unwrap();
        issued.expect("there was none before")
    }
}

async fn is_active(auth: &Auth, tenant: &TenantId) -> bool {
    auth.is_active(auth.tenant(tenant).await.unwrap().as_deref())
}

async fn is_accepted(auth: &Auth, issued: &IssuedKey) -> bool {
    match auth.principal(Ok(Some(issued.text.as_str()))).await {
        Ok(principal) => principal.key.as_deref() == Some(issued.key.id.as_str()),
        Err(AuthError::BadKey) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn api_key_authenticates_its_tenant_and_scopes() {
    let replicas = TwoReplicas::new();
    let issued = replicas.key().await;
    let principal = replicas.there.principal(Ok(Some(issued.text.as_str()))).await.unwrap();
    assert!(principal.scopes.allow(Scope::Admin));
    assert_eq!(principal.tenant, TenantId::default());
    assert!(matches!(replicas.here.principal(Ok(None)).await, Err(AuthError::NoKey)));
}

#[tokio::test]
async fn api_key_with_wrong_secret_is_rejected() {
    let replicas = TwoReplicas::new();
    let (issued, other) = (replicas.key().await, super::api_key::GeneratedKey::generate());
    let secret = other.text.split('_').nth(2).unwrap();
    let body = format!("lh_{}_{secret}", issued.key.id);
    let forged = format!("{body}_{:08x}", crc32fast::hash(body.as_bytes()));
    for _ in 0..2 {
        // First without and then with the key in the cache.
        assert!(matches!(replicas.here.principal(Ok(Some(&forged))).await, Err(AuthError::BadKey)));
        assert!(is_accepted(&replicas.here, &issued).await);
    }
    let unknown = replicas.here.principal(Ok(Some(other.text.as_str()))).await;
    assert!(matches!(unknown, Err(AuthError::BadKey)));
}

#[tokio::test]
async fn revoked_api_key_is_rejected_here_at_once_and_elsewhere_after_a_poll() {
    let replicas = TwoReplicas::new();
    let issued = replicas.key().await;
    replicas.there.poll_changes().await;
    assert!(
        is_accepted(&replicas.here, &issued).await && is_accepted(&replicas.there, &issued).await
    );
    replicas.clock.advance(Duration::from_secs(1));
    replicas.here.revoke_key(&issued.key.id, &AuditContext::server()).await.unwrap().unwrap();
    assert!(!is_accepted(&replicas.here, &issued).await);
    assert!(is_accepted(&replicas.there, &issued).await, "it has not heard of it");
    replicas.clock.advance(Duration::from_secs(1));
    replicas.there.poll_changes().await;
    assert!(!is_accepted(&replicas.there, &issued).await);
}

#[tokio::test]
async fn auth_cache_is_bypassed_while_polling_fails() {
    let replicas = TwoReplicas::new();
    let issued = replicas.key().await;
    replicas.there.poll_changes().await;
    assert!(is_accepted(&replicas.there, &issued).await);
    replicas.here.revoke_key(&issued.key.id, &AuditContext::server()).await.unwrap().unwrap();
    replicas.clock.advance(Duration::from_millis(3_999));
    assert!(is_accepted(&replicas.there, &issued).await);
    replicas.clock.advance(Duration::from_millis(1));
    assert!(!is_accepted(&replicas.there, &issued).await);
}

#[tokio::test]
async fn api_key_expires() {
    let replicas = TwoReplicas::new();
    replicas.key().await;
    let ends_at = replicas.clock.now().after(Duration::from_secs(2));
    let spec = KeySpec {
        tenant: TenantId::default(),
        name: "short".to_owned(),
        scopes: [Scope::Read].into_iter().collect(),
        expires_at: Some(ends_at),
        requests_per_s: None,
    };
    let issued = replicas.here.create_key(&spec, &AuditContext::server()).await.unwrap().unwrap();
    replicas.here.poll_changes().await;
    assert!(is_accepted(&replicas.here, &issued).await);
    replicas.clock.advance(Duration::from_secs(2));
    assert!(!is_accepted(&replicas.here, &issued).await, "although it is cached");
}

#[tokio::test]
async fn rotated_api_key_and_its_successor_overlap() {
    let replicas = TwoReplicas::new();
    let old = replicas.key().await;
    let overlap = Duration::from_mins(1);
    let new = replicas
        .here
        .rotate_key(&old.key.id, overlap, &AuditContext::server())
        .await
        .unwrap()
        .unwrap();
    assert!(is_accepted(&replicas.here, &old).await && is_accepted(&replicas.here, &new).await);
    replicas.clock.advance(overlap);
    assert!(!is_accepted(&replicas.here, &old).await && is_accepted(&replicas.here, &new).await);
}

#[tokio::test]
async fn api_keys_survive_a_rotation_of_the_server_key() {
    let former = Keyring::generate();
    let former_text = "lhk_a_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    drop(former);
    let both = format!("lhk_b_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n{former_text}");
    let replicas = TwoReplicas::with(settings(), &Arc::new(Keyring::parse(former_text).unwrap()));
    let issued = replicas.key().await;
    let store = Arc::clone(&replicas.here.0.accounts);
    let rotated = Arc::new(Keyring::parse(&both).unwrap());
    let after = Auth::new(Arc::clone(&store), rotated, replicas.clock.clone(), settings());
    assert!(is_accepted(&after, &issued).await);
    let digest = store.key(&issued.key.id).await.unwrap().unwrap().digest;
    assert_eq!(digest.server_key, "b", "the former key can go now");
    let only_new = Keyring::parse(both.lines().next().unwrap()).unwrap();
    let later = Auth::new(store, Arc::new(only_new), replicas.clock.clone(), settings());
    assert!(is_accepted(&later, &issued).await);
}

#[tokio::test]
async fn use_of_an_api_key_is_recorded() {
    let replicas = TwoReplicas::new();
    let issued = replicas.key().await;
    assert!(is_accepted(&replicas.here, &issued).await);
    let used_at = replicas.clock.now();
    replicas.clock.advance(Duration::from_secs(30));
    replicas.here.record_use().await;
    let kept = replicas.here.accounts().key(&issued.key.id).await.unwrap().unwrap();
    assert_eq!(kept.last_used_at, Some(used_at));
}

#[tokio::test]
async fn cached_tenant_is_used_for_thirty_seconds() {
    let replicas = TwoReplicas::new();
    replicas.key().await;
    let tenant = TenantId::default();
    assert!(is_active(&replicas.here, &tenant).await);
    let suspend =
        TenantChange { subscription: Some(Subscription::Suspended), ..TenantChange::default() };
    let entry =
        replicas.here.audit_entry(&AuditContext::server(), &tenant, "x", "y", String::new());
    replicas.here.accounts().change_tenant(&tenant, &suspend, &entry).await.unwrap().unwrap();
    replicas.clock.advance(Duration::from_secs(29));
    assert!(is_active(&replicas.here, &tenant).await);
    replicas.clock.advance(Duration::from_secs(1));
    assert!(!is_active(&replicas.here, &tenant).await);
    let nobody = TenantId::new("nobody").unwrap();
    assert!(is_active(&replicas.here, &nobody).await, "those who need no key have no row");
}
