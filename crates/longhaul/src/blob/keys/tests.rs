//! Keyrings, key files and tampering.

use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;

use super::*;

const TEXT: &str = "lhk_a1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

fn refused(text: &str) -> String {
    Keyring::parse(text).unwrap_err().to_string()
}

#[test]
fn first_key_is_the_current_one() {
    let other = TEXT.replace("a1", "b2");
    let keyring = Keyring::parse(&format!("# ours\n\n  {TEXT}  # new\n{other}\n")).unwrap();
    assert_eq!(keyring.current_id(), "a1");
    assert_eq!(format!("{keyring:?}"), r#"Keyring { current: "a1", former: ["b2"] }"#);
}

#[test]
fn errors_tell_the_line_and_never_the_key() {
    let secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let texts = [
        ("", "there is no key among the keys"),
        ("# nothing", "there is no key among the keys"),
        (secret, "line 1 of the keys is not a key: it does not begin with \"lhk_\""),
        (
            &format!("lhk_{secret}"),
            "line 1 of the keys is not a key: there is no \"_\" after its id",
        ),
        (
            &format!("\nlhk_a-1_{secret}"),
            "line 2 of the keys is not a key: its id is not 1 to 16 letters and digits",
        ),
        (
            &format!("lhk_a1_{secret}="),
            "line 1 of the keys is not a key: what follows its id is not base64url",
        ),
        ("lhk_a1_AAEC", "line 1 of the keys is not a key: it does not have 32 bytes"),
        (&format!("{TEXT}\n{TEXT}"), "two keys have the id \"a1\""),
    ];
    for (text, said) in texts {
        assert_eq!(refused(text), said);
    }
}

#[test]
fn key_of_a_job_is_unwrapped_in_its_own_context_only() {
    let keyring = Keyring::parse(TEXT).unwrap();
    let key = JobKey::generate();
    let wrapped = keyring.wrap(&key, b"acme/1/blobs");
    assert_ne!(wrapped, keyring.wrap(&key, b"acme/1/blobs"));
    assert_eq!(*keyring.unwrap(&wrapped, b"acme/1/blobs").unwrap().0, *key.0);
    assert!(matches!(keyring.unwrap(&wrapped, b"acme/2/blobs"), Err(KeyError::Damaged)));
}

#[test]
fn former_keys_unwrap_and_unknown_ones_are_named() {
    let (old, key) = (Keyring::parse(TEXT).unwrap(), JobKey::generate());
    let wrapped = old.wrap(&key, b"");
    let fresh = ServerKey::generate();
    let both = Keyring::parse(&format!("{}\n{TEXT}", *fresh.text())).unwrap();
    assert_eq!(*both.unwrap(&wrapped, b"").unwrap().0, *key.0);
    let alone = Keyring::parse(&fresh.text()).unwrap();
    let error = alone.unwrap(&wrapped, b"").unwrap_err();
    assert!(matches!(&error, KeyError::Unknown { id } if id == "a1"), "{error}");
    // Another key with the same id must not work.
    let namesake = TEXT.replace("AAEC", "BBBB");
    let error = Keyring::parse(&namesake).unwrap().unwrap(&wrapped, b"").unwrap_err();
    assert!(matches!(error, KeyError::Damaged), "{error}");
}

#[test]
fn every_changed_or_missing_byte_of_a_wrapped_key_is_noticed() {
    let keyring = Keyring::parse(TEXT).unwrap();
    let wrapped = keyring.wrap(&JobKey::generate(), b"context");
    for at in 0..wrapped.len() {
        let mut changed = wrapped.clone();
        changed[at] ^= 1;
        assert!(keyring.unwrap(&changed, b"context").is_err(), "byte {at} changed");
        assert!(keyring.unwrap(&wrapped[..at], b"context").is_err(), "cut at {at}");
    }
    assert!(keyring.unwrap(&[&wrapped[..], &[0]].concat(), b"context").is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_and_nothing_panics(bytes: Vec<u8>, text: String) {
        prop_assert!(Keyring::parse(TEXT).unwrap().unwrap(&bytes, b"").is_err());
        Keyring::parse(&text).ok();
    }
}

#[test]
fn file_is_made_once_and_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let first = Keyring::open(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(Keyring::open(&path).unwrap().current_id(), first.current_id());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn processes_that_start_at_once_agree_on_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let ids: std::collections::HashSet<String> = std::thread::scope(|scope| {
        let open = || Keyring::open(&path).unwrap().current_id().to_owned();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1);
}

#[test]
fn file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    Keyring::open(&path).unwrap();
    for mode in [0o640, 0o604, 0o644] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = Keyring::open(&path).unwrap_err();
        assert!(matches!(error, KeyError::Exposed { .. }), "{error}");
        assert!(matches!(Keyring::rotate(&path), Err(KeyError::Exposed { .. })));
    }
}

#[test]
fn folder_of_the_file_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let error = Keyring::open(&folder.path().join("absent/keys")).unwrap_err();
    assert!(matches!(error, KeyError::File { .. }), "{error}");
}

#[test]
fn rotated_file_wraps_with_the_new_key_and_unwraps_with_the_old() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let (before, key) = (Keyring::open(&path).unwrap(), JobKey::generate());
    let wrapped = before.wrap(&key, b"x");
    let rotated = Keyring::rotate(&path).unwrap();
    assert_ne!(rotated.current_id(), before.current_id());
    let after = Keyring::open(&path).unwrap();
    assert_eq!(after.current_id(), rotated.current_id());
    assert_eq!(*after.unwrap(&wrapped, b"x").unwrap().0, *key.0);
    assert!(matches!(before.unwrap(&after.wrap(&key, b"x"), b"x"), Err(KeyError::Unknown { .. })));
    assert!(std::fs::read_to_string(&path).unwrap().contains("# Keys of this server."));
}
