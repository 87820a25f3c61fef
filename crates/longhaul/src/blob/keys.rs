//! Server keys, which are stored outside of the database, and job keys, which the database stores
//! wrapped with a server key.
//!
//! Neither the database nor the blobs alone reveal the content of a blob. Deleting a job's key makes
//! every copy of its blobs unreadable, including those in backups.

mod file;
#[cfg(feature = "server")]
mod mac;
#[cfg(feature = "server")]
mod text;

use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::cipher::{Cipher, NONCE_BYTES, SecretKey, fill_random, random};

const PREFIX: &str = "lhk_";
const ID_BYTES_MAX: usize = 16;
/// Maximum number of keys of a server. A key is needed as long as anything is wrapped with it.
const KEYS_MAX: usize = 64;
/// Version of the format of wrapped keys and encrypted texts.
const VERSION: u8 = 1;
const WRAP_PURPOSE: &[u8] = b"longhaul wrap v1";
/// Size of the random salt of each encryption. Each salt gives its own key, so that the four billion
/// jobs after which 12-byte nonces would repeat do not wear out the server's key.
const SALT_BYTES: usize = 24;

/// An error of a key or key file, by what the operator can do. No message contains a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Check the file, its directory and their permissions.
    #[error("cannot use the key file {}: {source}", path.display())]
    File {
        /// The key file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Remove the permissions of group and others; rotate the key if they are not trusted.
    #[error(
        "others can read the key file {} (its mode is {mode:04o}); run chmod 600 on it, and rotate \
         the key if it may have been read", path.display()
    )]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Fix the line.
    #[error("line {line} of the keys is not a key: {problem}")]
    Malformed {
        /// Line number, from 1.
        line: usize,
        /// Description of the problem.
        problem: &'static str,
    },
    /// Remove one of the two.
    #[error("two keys have the id {id:?}")]
    Duplicate {
        /// The id of both.
        id: String,
    },
    /// Add a key, or delete the file, so that a new one is created.
    #[error("there is no key among the keys")]
    Empty,
    /// Remove keys that nothing is wrapped with any more.
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
    /// Add the key with this id again.
    #[error("the key {id:?} that this was wrapped with is not among the keys")]
    Unknown {
        /// Id of the missing key.
        id: String,
    },
    /// Call the operator: the key is lost, unless a backup has it.
    #[error("a wrapped key is damaged, or belongs to something else")]
    Damaged,
}

/// The key of one job's blobs. Its bytes are never printed.
pub struct JobKey(SecretKey);

impl JobKey {
    /// Generates a random key.
    pub fn generate() -> Self {
        let mut key = SecretKey::default();
        fill_random(&mut *key);
        Self(key)
    }

    pub(super) fn derive(&self, salt: &[u8], purpose: &[&[u8]]) -> Cipher {
        Cipher::derive(&self.0, salt, purpose)
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey")
    }
}

struct ServerKey {
    id: String,
    key: SecretKey,
}

impl ServerKey {
    fn generate() -> Self {
        let JobKey(key) = JobKey::generate();
        Self { id: format!("{:08x}", u32::from_be_bytes(random())), key }
    }

    /// Parses `lhk_<id>_<base64url>`.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = text.strip_prefix(PREFIX).ok_or("it does not begin with \"lhk_\"")?;
        let (id, encoded) = rest.split_once('_').ok_or("there is no \"_\" after its id")?;
        if !is_id(id) {
            return Err("its id is not 1 to 16 letters and digits");
        }
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(encoded).map(Zeroizing::new);
        let decoded = decoded.map_err(|_| "what follows its id is not base64url")?;
        let key = decoded.as_slice().try_into().map_err(|_| "it does not have 32 bytes")?;
        Ok(Self { id: id.to_owned(), key: Zeroizing::new(key) })
    }

    fn derive(&self, salt: &[u8], purpose: &[u8]) -> Cipher {
        Cipher::derive(&self.key, salt, &[purpose, self.id.as_bytes()])
    }

    fn text(&self) -> Zeroizing<String> {
        let encoded = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(*self.key));
        Zeroizing::new(format!("{PREFIX}{}_{}", self.id, *encoded))
    }
}

fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The keys that encrypt the keys of jobs: the current one, and earlier ones, which decrypt what they
/// once encrypted. Store them outside of the database.
pub struct Keyring {
    current: ServerKey,
    former: Vec<ServerKey>,
}

impl Keyring {
    /// Parses keys, one per line: `lhk_<id>_<base64url of 32 bytes>`, the current one first. `#`
    /// starts a comment.
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

    /// Generates a keyring with one random key.
    pub fn generate() -> Self {
        Self { current: ServerKey::generate(), former: Vec::new() }
    }

    /// Returns the id of the current key.
    pub fn current_id(&self) -> &str {
        &self.current.id
    }

    /// Returns the ids of all keys, the current one first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys().map(|key| key.id.as_str())
    }

    /// Wraps a job's key. It can only be unwrapped with the same context: tenant, job and purpose,
    /// as bytes.
    pub fn wrap(&self, key: &JobKey, context: &[u8]) -> Vec<u8> {
        self.seal(WRAP_PURPOSE, &*key.0, context)
    }

    /// Unwraps a key that was wrapped with the same context.
    pub fn unwrap(&self, wrapped: &[u8], context: &[u8]) -> Result<JobKey, KeyError> {
        let opened = self.open_sealed(WRAP_PURPOSE, wrapped, context)?;
        let key = opened.as_slice().try_into().map_err(|_| KeyError::Damaged)?;
        Ok(JobKey(Zeroizing::new(key)))
    }

    /// Returns the id of the server key that a job's key was wrapped with.
    pub fn id_of_wrapped(wrapped: &[u8]) -> Option<&str> {
        parts(wrapped).map(|(id, _, _)| id)
    }

    /// Encrypts with the current key: version, length of the key's id, id, salt, ciphertext, tag.
    fn seal(&self, purpose: &[u8], plain: &[u8], context: &[u8]) -> Vec<u8> {
        let salt: [u8; SALT_BYTES] = random();
        let mut sealed = Zeroizing::new(plain.to_vec());
        let cipher = self.current.derive(&salt, purpose);
        let tag = cipher.seal([0; NONCE_BYTES], context, &mut sealed);
        let id = self.current.id.as_bytes();
        let mut bytes = vec![VERSION, u8::try_from(id.len()).unwrap_or(0)];
        for part in [id, &salt, &sealed, &tag] {
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Decrypts the output of [`Keyring::seal`] with the same purpose and context.
    fn open_sealed(
        &self,
        purpose: &[u8],
        sealed: &[u8],
        context: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let (id, salt, sealed) = parts(sealed).ok_or(KeyError::Damaged)?;
        let key = self.key(id).ok_or_else(|| KeyError::Unknown { id: id.to_owned() })?;
        let mut text = Zeroizing::new(sealed.to_vec());
        let opened = key.derive(salt, purpose).open([0; NONCE_BYTES], context, &mut text);
        let length = opened.map_err(|_| KeyError::Damaged)?.len();
        text.truncate(length);
        Ok(text)
    }

    fn keys(&self) -> impl Iterator<Item = &ServerKey> {
        std::iter::once(&self.current).chain(&self.former)
    }

    fn key(&self, id: &str) -> Option<&ServerKey> {
        self.keys().find(|key| key.id == id)
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

/// Splits the output of [`Keyring::seal`] into id, salt and ciphertext.
fn parts(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (&[version, id_bytes], rest) = bytes.split_first_chunk::<2>()?;
    let (id, rest) = rest.split_at_checked(usize::from(id_bytes))?;
    let (salt, sealed) = rest.split_at_checked(SALT_BYTES)?;
    let id = std::str::from_utf8(id).ok().filter(|id| is_id(id))?;
    (version == VERSION).then_some((id, salt, sealed))
}

#[cfg(test)]
mod tests;
