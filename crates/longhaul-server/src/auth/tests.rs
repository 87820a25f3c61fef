use std::sync::Arc;
use std::time::Duration;

use longhaul::blob::Keyring;
use longhaul::store::accounts::{Scope, Subscription, TenantChange};
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, TenantId, Timestamp};

use super::{Auth, AuthSettings, Deed, KeyWish, MadeKey, Refusal};

/// Two replicas on one store, whose time stands still.
struct Desk {
    clock: Clock,
    here: Auth,
    there: Auth,
}

fn settings() -> AuthSettings {
    AuthSettings { require_keys: true, shared: true, ..AuthSettings::default() }
}

impl Desk {
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

    async fn key(&self) -> MadeKey {
        let made = self.here.create_first_key().await.unwrap();
        made.expect("there was none before")
    }
}

async fn is_active(auth: &Auth, tenant: &TenantId) -> bool {
    auth.is_active(auth.tenant(tenant).await.unwrap().as_deref())
}

async fn is_let_in(auth: &Auth, made: &MadeKey) -> bool {
    match auth.principal(Some(made.text.as_str())).await {
        Ok(principal) => principal.key.as_deref() == Some(made.key.id.as_str()),
        Err(Refusal::BadKey) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn key_is_good_for_what_it_was_made_for() {
    let desk = Desk::new();
    let made = desk.key().await;
    let principal = desk.there.principal(Some(made.text.as_str())).await.unwrap();
    assert!(principal.scopes.allow(Scope::Admin));
    assert_eq!(principal.tenant, TenantId::default());
    assert!(matches!(desk.here.principal(None).await, Err(Refusal::NoKey)));
}

#[tokio::test]
async fn right_id_with_another_secret_is_refused() {
    let desk = Desk::new();
    let (made, other) = (desk.key().await, super::token::Fresh::generate());
    let secret = other.text.split('_').nth(2).unwrap();
    let body = format!("lh_{}_{secret}", made.key.id);
    let forged = format!("{body}_{:08x}", crc32fast::hash(body.as_bytes()));
    for _ in 0..2 {
        // The first time nothing is remembered of the key, the second time it is.
        assert!(matches!(desk.here.principal(Some(&forged)).await, Err(Refusal::BadKey)));
        assert!(is_let_in(&desk.here, &made).await);
    }
    let unknown = desk.here.principal(Some(other.text.as_str())).await;
    assert!(matches!(unknown, Err(Refusal::BadKey)));
}

#[tokio::test]
async fn revoked_key_is_refused_here_at_once_and_elsewhere_after_a_look() {
    let desk = Desk::new();
    let made = desk.key().await;
    desk.there.look().await;
    assert!(is_let_in(&desk.here, &made).await && is_let_in(&desk.there, &made).await);
    desk.clock.advance(Duration::from_secs(1));
    desk.here.revoke_key(&made.key.id, &Deed::server()).await.unwrap().unwrap();
    assert!(!is_let_in(&desk.here, &made).await);
    assert!(is_let_in(&desk.there, &made).await, "it has not heard of it");
    desk.clock.advance(Duration::from_secs(1));
    desk.there.look().await;
    assert!(!is_let_in(&desk.there, &made).await);
}

#[tokio::test]
async fn who_hears_of_no_changes_believes_nothing() {
    let desk = Desk::new();
    let made = desk.key().await;
    desk.there.look().await;
    assert!(is_let_in(&desk.there, &made).await);
    desk.here.revoke_key(&made.key.id, &Deed::server()).await.unwrap().unwrap();
    desk.clock.advance(Duration::from_millis(3_999));
    assert!(is_let_in(&desk.there, &made).await);
    desk.clock.advance(Duration::from_millis(1));
    assert!(!is_let_in(&desk.there, &made).await);
}

#[tokio::test]
async fn key_ends_when_it_was_said_to() {
    let desk = Desk::new();
    desk.key().await;
    let ends_at = desk.clock.now().after(Duration::from_secs(2));
    let wish = KeyWish {
        tenant: TenantId::default(),
        name: "short".to_owned(),
        scopes: [Scope::Read].into_iter().collect(),
        expires_at: Some(ends_at),
        requests_per_s: None,
    };
    let made = desk.here.create_key(&wish, &Deed::server()).await.unwrap().unwrap();
    desk.here.look().await;
    assert!(is_let_in(&desk.here, &made).await);
    desk.clock.advance(Duration::from_secs(2));
    assert!(!is_let_in(&desk.here, &made).await, "although it is remembered");
}

#[tokio::test]
async fn rotated_key_and_its_successor_are_both_good_for_a_while() {
    let desk = Desk::new();
    let old = desk.key().await;
    let overlap = Duration::from_mins(1);
    let new = desk.here.rotate_key(&old.key.id, overlap, &Deed::server()).await.unwrap().unwrap();
    assert!(is_let_in(&desk.here, &old).await && is_let_in(&desk.here, &new).await);
    desk.clock.advance(overlap);
    assert!(!is_let_in(&desk.here, &old).await && is_let_in(&desk.here, &new).await);
}

#[tokio::test]
async fn keys_outlive_a_rotation_of_the_server_s_key() {
    let former = Keyring::generate();
    let former_text = "lhk_a_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    drop(former);
    let both = format!("lhk_b_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n{former_text}");
    let desk = Desk::with(settings(), &Arc::new(Keyring::parse(former_text).unwrap()));
    let made = desk.key().await;
    let store = Arc::clone(&desk.here.0.accounts);
    let rotated = Arc::new(Keyring::parse(&both).unwrap());
    let after = Auth::new(Arc::clone(&store), rotated, desk.clock.clone(), settings());
    assert!(is_let_in(&after, &made).await);
    let digest = store.key(&made.key.id).await.unwrap().unwrap().digest;
    assert_eq!(digest.server_key, "b", "the former key can go now");
    let only_new = Keyring::parse(both.lines().next().unwrap()).unwrap();
    let later = Auth::new(store, Arc::new(only_new), desk.clock.clone(), settings());
    assert!(is_let_in(&later, &made).await);
}

#[tokio::test]
async fn use_of_a_key_is_written_down() {
    let desk = Desk::new();
    let made = desk.key().await;
    assert!(is_let_in(&desk.here, &made).await);
    let used_at = desk.clock.now();
    desk.clock.advance(Duration::from_secs(30));
    desk.here.note_use().await;
    let kept = desk.here.accounts().key(&made.key.id).await.unwrap().unwrap();
    assert_eq!(kept.last_used_at, Some(used_at));
}

#[tokio::test]
async fn subscription_is_believed_for_half_a_minute() {
    let desk = Desk::new();
    desk.key().await;
    let tenant = TenantId::default();
    assert!(is_active(&desk.here, &tenant).await);
    let suspend =
        TenantChange { subscription: Some(Subscription::Suspended), ..TenantChange::default() };
    let entry = desk.here.entry(&Deed::server(), &tenant, "x", "y", String::new());
    desk.here.accounts().change_tenant(&tenant, &suspend, &entry).await.unwrap().unwrap();
    desk.clock.advance(Duration::from_secs(29));
    assert!(is_active(&desk.here, &tenant).await);
    desk.clock.advance(Duration::from_secs(1));
    assert!(!is_active(&desk.here, &tenant).await);
    let nobody = TenantId::new("nobody").unwrap();
    assert!(is_active(&desk.here, &nobody).await, "those who need no key have no row");
}
