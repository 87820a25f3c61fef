//! The text of a key: `lh_<id>_<secret>_<crc>`.
//!
//! The id is no secret: it is what the key is found by. The checksum tells a mistyped key, or any other text
//! that looks like one, from a key without asking the database; a scanner for leaked secrets can use it too.

use rand::Rng as _;
use zeroize::Zeroizing;

/// How every key begins.
const PREFIX: &str = "lh_";
/// Lower case without i, l, o and u: nothing to mix up, and no words.
pub(super) const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of an id: 80 bits, so that two keys never meet.
pub(super) const ID_CHARS: usize = 16;
/// Characters of a secret: 260 bits.
pub(super) const SECRET_CHARS: usize = 52;
const CRC_CHARS: usize = 8;

/// Whether a text looks like a key, be it a good one or not.
pub(super) fn is_ours(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// A key as somebody presented it.
#[derive(Clone, Copy)]
pub(super) struct Presented<'a> {
    /// What it is found by.
    pub(super) id: &'a str,
    /// All but the checksum: what is compared.
    pub(super) body: &'a str,
}

/// Whether a text is a key, or was meant to be one.
pub(super) fn is_key(text: &str) -> bool {
    text.starts_with(PREFIX)
}

impl<'a> Presented<'a> {
    /// Reads a key; none if the text is not one.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (body, crc) = text.rsplit_once('_')?;
        let (id, secret) = body.strip_prefix(PREFIX)?.split_once('_')?;
        let well_formed = is_of(id, ID_CHARS)
            && is_of(secret, SECRET_CHARS)
            && crc.len() == CRC_CHARS
            && crc == checksum(body);
        well_formed.then_some(Self { id, body })
    }
}

/// A fresh key. Its text exists here and with whoever asked for it, and nowhere else.
pub(super) struct Fresh {
    pub(super) id: String,
    pub(super) text: Zeroizing<String>,
}

impl Fresh {
    pub(super) fn generate() -> Self {
        let (id, secret) = (random(ID_CHARS), Zeroizing::new(random(SECRET_CHARS)));
        let body = Zeroizing::new(format!("{PREFIX}{id}_{}", *secret));
        let text = Zeroizing::new(format!("{}_{}", *body, checksum(&body)));
        Self { id, text }
    }
}

fn is_of(text: &str, chars: usize) -> bool {
    text.len() == chars && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

fn random(chars: usize) -> String {
    let mut rng = rand::rng();
    let mut char = || {
        let place = usize::from(rng.next_u32().to_le_bytes()[0] % 32);
        char::from(ALPHABET.get(place).copied().unwrap_or(b'0'))
    };
    (0..chars).map(|_| char()).collect()
}

pub(super) fn checksum(body: &str) -> String {
    format!("{:08x}", crc32fast::hash(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fresh_key_reads_back() {
        let fresh = Fresh::generate();
        let presented = Presented::parse(&fresh.text).unwrap();
        assert_eq!(presented.id, fresh.id);
        assert_ne!(*Fresh::generate().text, *fresh.text);
    }

    #[test]
    fn one_wrong_character_is_noticed() {
        let text = Fresh::generate().text.to_string();
        for place in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[place] = if wrong[place] == b'0' { b'1' } else { b'0' };
            assert!(Presented::parse(&String::from_utf8(wrong).unwrap()).is_none(), "{place}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_stumble(text in "\\PC*") {
            prop_assert!(Presented::parse(&text).is_none());
        }

        #[test]
        fn nothing_like_a_key_makes_it_stumble(text in "lh_[0-9a-z_]{0,90}") {
            prop_assert!(Presented::parse(&text).is_none());
        }
    }
}
