//! An issuer's public keys, and what each may have signed.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

/// How a token may be signed. There is no `none` and nothing with a shared secret: whoever can verify
/// such a token can make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "RS384" => Some(Self::Rs384),
            "RS512" => Some(Self::Rs512),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            "ES384" => Some(Self::Es384),
            // RFC 9864 gives the second name to the only curve that we take.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A key by its type.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Public {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// One key of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, if the issuer says so.
    algorithm: Option<Algorithm>,
    public: Public,
}

impl Key {
    /// Whether a signature of this algorithm may be this key's: by its type, and by what its issuer says.
    fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm)
            && match algorithm {
                Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 | Algorithm::Ps256 => {
                    matches!(self.public, Public::Rsa { .. })
                }
                Algorithm::Es256 => matches!(self.public, Public::P256(_)),
                Algorithm::Es384 => matches!(self.public, Public::P384(_)),
                Algorithm::EdDsa => matches!(self.public, Public::Ed25519(_)),
            }
    }

    /// Whether this key signed the message.
    pub(super) fn signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        let verified = match &self.public {
            Public::Rsa { n, e } => match rsa(algorithm) {
                Some(how) => RsaPublicKeyComponents { n, e }.verify(how, message, signature),
                None => return false,
            },
            Public::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
            }
            Public::P384(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, signature)
            }
            Public::Ed25519(point) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// Keys of less than 2048 bits verify nothing.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}

/// What a set has for a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The key that it must be signed with.
    Key(&'a Key),
    /// The key that it names, which signs otherwise.
    Unfit,
    /// No such key: perhaps one that the issuer has had only for a moment.
    Nothing,
}

/// All keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// Reads a JWKS. A key that we cannot use, of a new type for instance, leaves the others good; none
    /// that we can use is an error.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let raw: RawSet = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let read = |key| serde_json::from_value::<RawKey>(key).ok().and_then(RawKey::read);
        let keys: Vec<Key> = raw.keys.into_iter().filter_map(read).collect();
        if keys.is_empty() {
            return Err("none of its keys can be used here".to_owned());
        }
        Ok(Self(keys))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key of this id. Without one: the only key that fits, since a guess among several would be one.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Found<'_> {
        let named = |key: &&Key| id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut fitting = self.0.iter().filter(named).filter(|key| key.fits(algorithm));
        match (fitting.next(), fitting.next(), id) {
            (Some(key), None, _) | (Some(key), Some(_), Some(_)) => Found::Key(key),
            (None, _, Some(_)) if self.0.iter().any(|key| named(&key)) => Found::Unfit,
            (Some(_), Some(_), None) | (None, _, _) => Found::Nothing,
        }
    }
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<serde_json::Value>,
}

/// RFC 7517 and 7518, as far as we use them.
#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl RawKey {
    fn read(self) -> Option<Key> {
        let verifies = self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if self.r#use.as_deref().is_some_and(|used| used != "sig") || !verifies {
            return None;
        }
        // A key for an algorithm that we do not take is none of ours, not one for any algorithm.
        let algorithm = match self.alg.as_deref() {
            Some(name) => Some(Algorithm::parse(name)?),
            None => None,
        };
        let public = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Public::Rsa { n: number(&self.n?)?, e: number(&self.e?)? },
            ("EC", Some("P-256")) => Public::P256(point(&self.x?, &self.y?, 32)?),
            ("EC", Some("P-384")) => Public::P384(point(&self.x?, &self.y?, 48)?),
            ("OKP", Some("Ed25519")) => {
                Public::Ed25519(decode(&self.x?).filter(|bytes| bytes.len() == 32)?)
            }
            (_, _) => return None,
        };
        Some(Key { id: self.kid, algorithm, public })
    }
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

/// Without leading zeros, which some issuers send and ring refuses.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = decode(text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).map(<[u8]>::to_vec)
}

/// Both coordinates, uncompressed.
fn point(x: &str, y: &str, size: usize) -> Option<Vec<u8>> {
    let (x, y) = (decode(x)?, decode(y)?);
    (x.len() == size && y.len() == size).then(|| [&[4], x.as_slice(), y.as_slice()].concat())
}
