//! Keys: the server's, which live outside the database, and each job's own, which the database keeps
//! wrapped in one of them.
//!
//! Whoever has only the database, or only the blobs, can read no blob. A job's key that is deleted with
//! the job takes every copy of its blobs with it, also those in backups.

mod file;
mod mac;
mod text;

use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::cipher::{Cipher, KEY_BYTES, NONCE_BYTES, Secret, TAG_BYTES, fill_random, random};

/// How a key's text begins.
const PREFIX: &str = "lhk_";
/// Characters of a key's id.
const ID_BYTES_MAX: usize = 16;
/// Keys of one server. A key is needed as long as something is wrapped in it.
const KEYS_MAX: usize = 64;
/// The form of wrapped keys that this program writes.
const WRAP_VERSION: u8 = 1;
/// What a key that wraps is derived for.
const WRAP_PURPOSE: &[u8] = b"longhaul wrap v1";
/// Random bytes of each wrapping. They make a key of their own, so that a server's key is not worn
/// out by the four billion jobs after which nonces of twelve bytes would repeat.
const SALT_BYTES: usize = 24;

/// Why a key cannot be had, by what can be done about it. No message holds a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Look at the file, its folder and their permissions.
    #[error("cannot use the key file {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Take the others' rights away; if they are not trusted, rotate the key.
    #[error(
        "others can read the key file {} (its mode is {mode:04o}); run chmod 600 on it, and rotate \
         the key if somebody may have read it", path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Fix the text.
    #[error("line {line} of the keys is not a key: {problem}")]
    Malformed {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Keep one of them.
    #[error("two keys have the id {id:?}")]
    Duplicate {
        /// Their id.
        id: String,
    },
    /// Add a key, or delete the file, so that one is made.
    #[error("there is no key among the keys")]
    Empty,
    /// Remove keys that nothing is wrapped in any more.
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
    /// Put the key with this id back among the keys.
    #[error("the key {id:?} that this was wrapped with is not among the keys")]
    Unknown {
        /// Its id.
        id: String,
    },
    /// Tell the operator: it is lost, unless a backup has it.
    #[error("a wrapped key is damaged, or belongs to something else")]
    Damaged,
}

/// The key of one job's blobs. The text of a `JobKey` is never shown.
pub struct JobKey(Secret);

impl JobKey {
    /// A fresh one.
    pub fn generate() -> Self {
        let mut key = Secret::default();
        fill_random(&mut *key);
        Self(key)
    }

    /// The key for one salt and purpose.
    pub(super) fn derive(&self, salt: &[u8], purpose: &[&[u8]]) -> Cipher {
        Cipher::derive(&self.0, salt, purpose)
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey")
    }
}

/// One of the server's keys.
struct ServerKey {
    id: String,
    key: Secret,
}

impl ServerKey {
    fn generate() -> Self {
        let mut key = Secret::default();
        fill_random(&mut *key);
        Self { id: format!("{:08x}", u32::from_be_bytes(random())), key }
    }

    /// Reads `lhk_<id>_<base64url>`.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = text.strip_prefix(PREFIX).ok_or("it does not begin with \"lhk_\"")?;
        let (id, encoded) = rest.split_once('_').ok_or("there is no \"_\" after its id")?;
        if !is_id(id) {
            return Err("its id is not 1 to 16 letters and digits");
        }
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(encoded).map(Zeroizing::new);
        let decoded = decoded.map_err(|_| "what follows its id is not base64url")?;
        let mut key = Secret::default();
        if decoded.len() != KEY_BYTES {
            return Err("it does not have 32 bytes");
        }
        key.copy_from_slice(&decoded);
        Ok(Self { id: id.to_owned(), key })
    }

    fn text(&self) -> Zeroizing<String> {
        let encoded = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(*self.key));
        Zeroizing::new(format!("{PREFIX}{}_{}", self.id, *encoded))
    }
}

fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The server's keys: the current one, and those before it, which open what they once wrapped.
pub struct Keyring {
    current: ServerKey,
    former: Vec<ServerKey>,
}

impl Keyring {
    /// Reads keys from a text: one a line, `lhk_<id>_<base64url of 32 bytes>`, the current one first.
    /// What follows a `#` is a comment.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut keys: Vec<ServerKey> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let key = ServerKey::parse(line)
                .map_err(|problem| KeyError::Malformed { line: index + 1, problem })?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(KeyError::Duplicate { id: key.id });
            }
            keys.push(key);
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        if keys.is_empty() {
            return Err(KeyError::Empty);
        }
        let current = keys.remove(0);
        Ok(Self { current, former: keys })
    }

    /// A keyring of one fresh key.
    pub fn generate() -> Self {
        Self { current: ServerKey::generate(), former: Vec::new() }
    }

    /// The id of the key that wraps from now on.
    pub fn current_id(&self) -> &str {
        &self.current.id
    }

    /// The ids of all keys, the current one first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.current).chain(&self.former).map(|key| key.id.as_str())
    }

    /// Wraps a job's key. Only the same context unwraps it: tenant, job and purpose, as bytes.
    pub fn wrap(&self, key: &JobKey, context: &[u8]) -> Vec<u8> {
        let salt: [u8; SALT_BYTES] = random();
        let mut sealed = Zeroizing::new(*key.0);
        let tag = wrapping(&self.current, &salt).seal([0; NONCE_BYTES], context, &mut *sealed);
        let id = self.current.id.as_bytes();
        let mut wrapped = vec![WRAP_VERSION, u8::try_from(id.len()).unwrap_or(0)];
        for part in [id, &salt, &*sealed, &tag] {
            wrapped.extend_from_slice(part);
        }
        wrapped
    }

    /// Unwraps what [`Keyring::wrap`] made of a key in the same context.
    pub fn unwrap(&self, wrapped: &[u8], context: &[u8]) -> Result<JobKey, KeyError> {
        let (id, salt, sealed) = parts(wrapped).ok_or(KeyError::Damaged)?;
        let mut keys = std::iter::once(&self.current).chain(&self.former);
        let by = keys.find(|key| key.id == id);
        let by = by.ok_or_else(|| KeyError::Unknown { id: id.to_owned() })?;
        let mut sealed = Zeroizing::new(*sealed);
        let opened = wrapping(by, salt)
            .open([0; NONCE_BYTES], context, &mut *sealed)
            .map_err(|_| KeyError::Damaged)?;
        let mut key = Secret::default();
        key.copy_from_slice(opened);
        Ok(JobKey(key))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let former: Vec<_> = self.former.iter().map(|key| &key.id).collect();
        f.debug_struct("Keyring")
            .field("current", &self.current.id)
            .field("former", &former)
            .finish()
    }
}

fn wrapping(key: &ServerKey, salt: &[u8]) -> Cipher {
    Cipher::derive(&key.key, salt, &[WRAP_PURPOSE, key.id.as_bytes()])
}

/// Id, salt, and the sealed key of a wrapped one.
fn parts(wrapped: &[u8]) -> Option<(&str, &[u8], &[u8; KEY_BYTES + TAG_BYTES])> {
    let (&[version, id_bytes], rest) = wrapped.split_first_chunk::<2>()?;
    let (id, rest) = rest.split_at_checked(usize::from(id_bytes))?;
    let (salt, sealed) = rest.split_at_checked(SALT_BYTES)?;
    let id = std::str::from_utf8(id).ok().filter(|id| is_id(id))?;
    (version == WRAP_VERSION).then_some((id, salt, sealed.try_into().ok()?))
}

#[cfg(test)]
mod tests;
