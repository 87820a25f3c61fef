use std::sync::Arc;

use object_store::memory::InMemory;

use super::*;

/// Returns a random key as a line of a key file.
fn a_key(id: &str) -> String {
    let mut bytes = [0; 32];
    crate::blob::cipher::fill_random(&mut bytes);
    format!("lhk_{id}_{}\n", BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn keyring(lines: &[&str]) -> Keyring {
    Keyring::parse(&lines.concat()).unwrap()
}

async fn fits(store: &InMemory, lines: &[&str]) -> KeyCheck {
    record(store, &keyring(lines)).await.unwrap()
}

fn foreign(newest: &str) -> KeyCheck {
    KeyCheck::Foreign { newest: newest.to_owned() }
}

fn behind(newest: &str) -> KeyCheck {
    KeyCheck::Behind { newest: newest.to_owned() }
}

#[tokio::test]
async fn only_who_has_the_key_of_the_first_is_at_home() {
    let store = InMemory::new();
    let (first, other) = (a_key("first"), a_key("other"));
    assert_eq!(check(&store, &keyring(&[&first])).await, Ok(KeyCheck::Unmarked));
    assert_eq!(fits(&store, &[&first]).await, KeyCheck::Fitting);
    assert_eq!(fits(&store, &[&first]).await, KeyCheck::Fitting);
    assert_eq!(fits(&store, &[&other]).await, foreign("first"));
    assert_eq!(fits(&store, &[&a_key("first")]).await, foreign("first"), "its name is not enough");
}

#[tokio::test]
async fn rotation_locks_out_no_server_in_whatever_order_the_key_arrives() {
    let store = InMemory::new();
    let (old, new) = (a_key("old"), a_key("new"));
    assert_eq!(fits(&store, &[&old]).await, KeyCheck::Fitting);
    assert_eq!(fits(&store, &[&new]).await, foreign("old"), "no key has vouched for it");
    assert_eq!(fits(&store, &[&new, &old]).await, KeyCheck::Fitting);
    assert_eq!(fits(&store, &[&old]).await, behind("new"), "it gets the new key later");
    assert_eq!(fits(&store, &[&old, &new]).await, KeyCheck::Fitting, "in whatever place");
    assert_eq!(fits(&store, &[&new]).await, KeyCheck::Fitting, "the old line was deleted");
}

#[tokio::test]
async fn looking_changes_nothing() {
    let store = InMemory::new();
    let (old, new) = (a_key("old"), a_key("new"));
    assert_eq!(check(&store, &keyring(&[&old])).await, Ok(KeyCheck::Unmarked));
    assert_eq!(fits(&store, &[&old]).await, KeyCheck::Fitting);
    assert_eq!(check(&store, &keyring(&[&new, &old])).await, Ok(KeyCheck::Fitting));
    assert_eq!(check(&store, &keyring(&[&new])).await, Ok(foreign("old")), "it was not added");
}

#[tokio::test]
async fn of_many_that_begin_at_once_one_decides() {
    let store = Arc::new(InMemory::new());
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        starts.spawn(async move { record(&*store, &Keyring::generate()).await.unwrap() });
    }
    let at_home = starts.join_all().await.iter().filter(|fit| **fit == KeyCheck::Fitting).count();
    assert_eq!(at_home, 1);
}

#[tokio::test]
async fn marks_that_are_not_understood_are_left_alone() {
    let store = InMemory::new();
    let path = Path::from(KEY_MARKERS_NAME);
    for text in ["", "# nothing", "what is this?", "id not base64!"] {
        store.put(&path, text.into()).await.unwrap();
        let left = record(&store, &Keyring::generate()).await;
        assert!(matches!(left, Err(BlobError::Damaged(_))), "{text:?}: {left:?}");
        assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), text);
    }
}

#[tokio::test]
async fn oldest_marks_are_forgotten() {
    let store = InMemory::new();
    let keys: Vec<_> = (0..=MARKS_MAX).map(|number| a_key(&format!("k{number}"))).collect();
    let mut before = keys[0].as_str();
    assert_eq!(fits(&store, &[before]).await, KeyCheck::Fitting);
    for key in &keys[1..] {
        assert_eq!(fits(&store, &[key, before]).await, KeyCheck::Fitting);
        before = key;
    }
    assert_eq!(fits(&store, &[&keys[0]]).await, foreign(&format!("k{MARKS_MAX}")));
    assert_eq!(fits(&store, &[&keys[1]]).await, behind(&format!("k{MARKS_MAX}")));
}
