//! API key format: `lh_<id>_<secret>_<crc>`.
//!
//! The id is not secret; it identifies the key's row. The checksum rejects mistyped keys without a database
//! query, and lets secret scanners recognise leaked ones.

use rand::Rng as _;
use zeroize::Zeroizing;

const PREFIX: &str = "lh_";
/// Lower case without i, l, o and u, to avoid confusion and accidental words.
pub(super) const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of an id: 80 bits, so that collisions do not occur.
pub(super) const ID_CHARS: usize = 16;
/// Characters of a secret: 260 bits.
pub(super) const SECRET_CHARS: usize = 52;
const CRC_CHARS: usize = 8;

/// A well-formed key as a client sent it.
#[derive(Clone, Copy)]
pub(super) struct ParsedKey<'a> {
    pub(super) id: &'a str,
    /// Everything but the checksum; this is digested.
    pub(super) body: &'a str,
}

/// Returns whether a text has the prefix of an API key, well-formed or not.
pub(super) fn is_key(text: &str) -> bool {
    text.starts_with(PREFIX)
}

impl<'a> ParsedKey<'a> {
    /// Parses a key. `None` if the text is not well-formed.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (body, crc) = text.rsplit_once('_')?;
        let (id, secret) = body.strip_prefix(PREFIX)?.split_once('_')?;
        let well_formed = is_valid_part(id, ID_CHARS)
            && is_valid_part(secret, SECRET_CHARS)
            && crc.len() == CRC_CHARS
            && crc == checksum(body);
        well_formed.then_some(Self { id, body })
    }
}

/// A new random key. Its text is returned to the caller once and stored nowhere.
pub(super) struct GeneratedKey {
    pub(super) id: String,
    pub(super) text: Zeroizing<String>,
}

impl GeneratedKey {
    pub(super) fn generate() -> Self {
        let (id, secret) = (random(ID_CHARS), Zeroizing::new(random(SECRET_CHARS)));
        let body = Zeroizing::new(format!("{PREFIX}{id}_{}", *secret));
        let text = Zeroizing::new(format!("{}_{}", *body, checksum(&body)));
        Self { id, text }
    }
}

fn is_valid_part(text: &str, chars: usize) -> bool {
    text.len() == chars && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

fn random(chars: usize) -> String {
    let mut rng = rand::rng();
    let mut char = || {
        let index = usize::from(rng.next_u32().to_le_bytes()[0] % 32);
        char::from(ALPHABET.get(index).copied().unwrap_or(b'0'))
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
    fn generated_api_key_parses() {
        let generated = GeneratedKey::generate();
        let parsed = ParsedKey::parse(&generated.text).unwrap();
        assert_eq!(parsed.id, generated.id);
        assert_ne!(*GeneratedKey::generate().text, *generated.text);
    }

    #[test]
    fn api_key_with_one_wrong_character_is_rejected() {
        let text = GeneratedKey::generate().text.to_string();
        for index in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[index] = if wrong[index] == b'0' { b'1' } else { b'0' };
            assert!(ParsedKey::parse(&String::from_utf8(wrong).unwrap()).is_none(), "{index}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_no_api_key(text in "\\PC*") {
            prop_assert!(ParsedKey::parse(&text).is_none());
        }

        #[test]
        fn text_with_the_prefix_of_an_api_key_is_none(text in "lh_[0-9a-z_]{0,90}") {
            prop_assert!(ParsedKey::parse(&text).is_none());
        }
    }
}
