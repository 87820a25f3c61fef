//! Signing keys.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

/// RSA key generated for these tests, because ring cannot generate one.
const RSA: &str = include_str!("rsa.pk8.base64");

/// Private key of an issuer.
pub(crate) struct Signer {
    pub(crate) kid: String,
    pub(crate) algorithm: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn ed25519(kid: &str) -> Self {
        Self::of(kid, "EdDSA")
    }

    /// Generates a key for this algorithm; RSA keys are fixed.
    pub(crate) fn of(kid: &str, algorithm: &'static str) -> Self {
        let rng = SystemRandom::new();
        let ec = |how| {
            let made = EcdsaKeyPair::generate_pkcs8(how, &rng).unwrap();
            Pair::Ec(EcdsaKeyPair::from_pkcs8(how, made.as_ref(), &rng).unwrap())
        };
        let pair = match algorithm {
            "ES256" => ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
            "EdDSA" => {
                let made = Ed25519KeyPair::generate_pkcs8(&rng).unwrap();
                Pair::Ed(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
            }
            _ => {
                let der = BASE64_STANDARD.decode(RSA.replace('\n', "")).unwrap();
                Pair::Rsa(RsaKeyPair::from_pkcs8(&der).unwrap())
            }
        };
        Self { kid: kid.to_owned(), algorithm, pair }
    }

    /// Returns the public key as a JWK.
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = json!({"kid": self.kid, "alg": self.algorithm, "use": "sig"});
        let named = |values: Value| values.as_object().unwrap().clone();
        let fields = match &self.pair {
            Pair::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": part(&public.n), "e": part(&public.e)})
            }
            Pair::Ec(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let crv = if point.len() == 64 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": crv, "x": part(x), "y": part(y)})
            }
            Pair::Ed(pair) => {
                let x = part(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "x": x})
            }
        };
        jwk.as_object_mut().unwrap().extend(named(fields));
        jwk
    }

    /// Signs a token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm, "kid": self.kid, "typ": "at+jwt"}), claims)
    }

    /// Signs a token with an arbitrary header.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|json| part(json.to_string().as_bytes()));
        let message = format!("{header}.{claims}");
        format!("{message}.{}", part(&self.sign(message.as_bytes())))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let rng = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let how: &dyn ring::signature::RsaEncoding = match self.algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(how, &rng, message, &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&rng, message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

/// Encodes one part of a token.
pub(crate) fn part(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
