//! JSON Web Keys: an issuer's public keys and signature verification.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

/// Supported signature algorithms. Excludes `none` and shared secrets, because a party that can verify such a
/// token can also forge it.
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
            // The second name is that of RFC 9864 for the only supported curve.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// One public key of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VerificationKey {
    id: Option<String>,
    /// The only algorithm allowed for this key, if the issuer restricts it.
    algorithm: Option<Algorithm>,
    public: PublicKey,
}

impl VerificationKey {
    /// Returns whether the key's type and restriction allow this algorithm.
    fn supports(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm)
            && match algorithm {
                Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 | Algorithm::Ps256 => {
                    matches!(self.public, PublicKey::Rsa { .. })
                }
                Algorithm::Es256 => matches!(self.public, PublicKey::P256(_)),
                Algorithm::Es384 => matches!(self.public, PublicKey::P384(_)),
                Algorithm::EdDsa => matches!(self.public, PublicKey::Ed25519(_)),
            }
    }

    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.supports(algorithm) {
            return false;
        }
        let verified = match &self.public {
            PublicKey::Rsa { n, e } => match rsa(algorithm) {
                Some(parameters) => {
                    RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
                }
                None => return false,
            },
            PublicKey::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
            }
            PublicKey::P384(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, signature)
            }
            PublicKey::Ed25519(point) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// Returns the parameters of an RSA algorithm; they reject keys of less than 2048 bits.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}

/// Result of looking up the key of a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyLookup<'a> {
    Key(&'a VerificationKey),
    /// The named key does not support the token's algorithm.
    WrongAlgorithm,
    /// Unknown key, possibly one that the issuer has just added.
    Missing,
}

/// All keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeySet(Vec<VerificationKey>);

impl KeySet {
    /// Parses a JWKS. Skips unsupported keys, for example of a new type; fails if no key is supported.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let raw: RawKeySet = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let read = |key| serde_json::from_value::<RawKey>(key).ok().and_then(RawKey::read);
        let keys: Vec<VerificationKey> = raw.keys.into_iter().filter_map(read).collect();
        if keys.is_empty() {
            return Err("contains no supported key".to_owned());
        }
        Ok(Self(keys))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Finds the key with this id. Without an id, the only key that supports the algorithm; several are ambiguous
    /// and yield `Missing`.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> KeyLookup<'_> {
        let named = |key: &&VerificationKey| id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut candidates = self.0.iter().filter(named).filter(|key| key.supports(algorithm));
        match (candidates.next(), candidates.next(), id) {
            (Some(key), None, _) | (Some(key), Some(_), Some(_)) => KeyLookup::Key(key),
            (None, _, Some(_)) if self.0.iter().any(|key| named(&key)) => KeyLookup::WrongAlgorithm,
            (Some(_), Some(_), None) | (None, _, _) => KeyLookup::Missing,
        }
    }
}

#[derive(Deserialize)]
struct RawKeySet {
    keys: Vec<serde_json::Value>,
}

/// The fields used of RFC 7517 and 7518.
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
    fn read(self) -> Option<VerificationKey> {
        let verifies = self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if self.r#use.as_deref().is_some_and(|used| used != "sig") || !verifies {
            return None;
        }
        // A key for an unsupported algorithm is skipped; it is not a key for any algorithm.
        let algorithm = match self.alg.as_deref() {
            Some(name) => Some(Algorithm::parse(name)?),
            None => None,
        };
        let public = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => PublicKey::Rsa { n: number(&self.n?)?, e: number(&self.e?)? },
            ("EC", Some("P-256")) => PublicKey::P256(point(&self.x?, &self.y?, 32)?),
            ("EC", Some("P-384")) => PublicKey::P384(point(&self.x?, &self.y?, 48)?),
            ("OKP", Some("Ed25519")) => {
                PublicKey::Ed25519(decode(&self.x?).filter(|bytes| bytes.len() == 32)?)
            }
            (_, _) => return None,
        };
        Some(VerificationKey { id: self.kid, algorithm, public })
    }
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

/// Decodes an integer without leading zeros, which some issuers send and ring rejects.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = decode(text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).map(<[u8]>::to_vec)
}

/// Encodes both coordinates as an uncompressed point.
fn point(x: &str, y: &str, size: usize) -> Option<Vec<u8>> {
    let (x, y) = (decode(x)?, decode(y)?);
    (x.len() == size && y.len() == size).then(|| [&[4], x.as_slice(), y.as_slice()].concat())
}
