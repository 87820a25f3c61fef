//! Names of pictures that follow from what is in them.

use sha2::{Digest, Sha256};

use super::Request;

/// What draws, and how. Part of every short link, since another renderer makes another picture: to be changed
/// with the version of a renderer, a font, or what is done to a picture afterwards.
pub const RENDERER: &str = "merman 0.9.3, d2-little 0.7.1-1, resvg 0.47, dejavu 2.37, 1";

/// Crockford's alphabet: no two letters that look alike, and no need for capitals.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 130 bits' worth of letters, for 128.
const LETTERS: u32 = 26;

/// The name of the picture that a tenant gets for this request: the same for the same request, and another for
/// every other and for every other tenant. 128 bits of SHA-256: nobody guesses it who does not know the tenant
/// and the source, and nobody has two of them that are equal.
pub fn shortlink(tenant: &str, request: &Request) -> String {
    let Request { source, format, output_type, options } = request;
    let background = options.background.map(|background| background.to_string());
    let scale = options.scale.unwrap_or(1.0).to_string();
    let width = options.width.map(|width| width.to_string());
    let parts = [
        "longhaul render",
        RENDERER,
        tenant,
        format.as_str(),
        output_type.as_str(),
        options.theme.as_str(),
        background.as_deref().unwrap_or("theme"),
        &scale,
        width.as_deref().unwrap_or("natural"),
        source,
    ];
    let mut digest = Sha256::new();
    for part in parts {
        // With its length, so that no letter can move from one part to the next.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest = digest.finalize();
    let bits = digest.iter().take(16).fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
    let letter = |place: u32| {
        let index = usize::try_from((bits >> (5 * place)) & 31).unwrap_or_default();
        ALPHABET.get(index).copied().map_or('0', char::from)
    };
    (0..LETTERS).rev().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::render::{Background, Format, Options, OutputType, Theme};

    fn request() -> Request {
        Request {
            source: "flowchart LR\n  A --> B".to_owned(),
            format: Format::Mermaid,
            output_type: OutputType::Png,
            options: Options::default(),
        }
    }

    #[test]
    fn a_short_link_stays_what_it_is() {
        let link = shortlink("default", &request());
        assert_eq!(link, shortlink("default", &request()));
        assert_eq!(link.len(), 26);
        assert!(link.bytes().all(|letter| ALPHABET.contains(&letter)), "{link}");
    }

    #[test]
    fn whatever_changes_a_picture_changes_its_short_link() {
        let with = |options: Options| Request { options, ..request() };
        let defaults = Options::default();
        let colour = Some(Background::Colour([1, 2, 3]));
        let requests = [
            request(),
            Request { source: "flowchart LR\n  A --> C".to_owned(), ..request() },
            Request { format: Format::D2, ..request() },
            Request { output_type: OutputType::Svg, ..request() },
            with(Options { theme: Theme::Dark, ..defaults }),
            with(Options { background: Some(Background::Transparent), ..defaults }),
            with(Options { background: colour, ..defaults }),
            with(Options { scale: Some(2.0), ..defaults }),
            with(Options { width: Some(2), ..defaults }),
        ];
        let links: HashSet<_> =
            requests.iter().map(|request| shortlink("default", request)).collect();
        assert_eq!(links.len(), requests.len());
    }

    #[test]
    fn two_tenants_never_share_a_short_link() {
        assert_ne!(shortlink("one", &request()), shortlink("two", &request()));
    }

    #[test]
    fn no_letter_moves_from_the_tenant_to_what_follows() {
        // Were the parts only put together, these would be equal.
        assert_ne!(shortlink("a", &request()), shortlink("amermaid", &request()));
    }

    #[test]
    fn a_scale_of_one_is_no_scale() {
        let options = Options { scale: Some(1.0), ..Options::default() };
        let scaled = Request { options, ..request() };
        assert_eq!(shortlink("default", &scaled), shortlink("default", &request()));
    }
}
