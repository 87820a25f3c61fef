//! Short links.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul::TenantId;
use longhaul::blob::Keyring;
use longhaul_render::RenderRequest;

const NAME: &[u8] = b"short link";
const VEIL: &[u8] = b"tenant of a short link";
/// 128 bits: not to be guessed, and no two of them are equal.
const NAME_BYTES: usize = 16;

/// Makes links: a name that follows from the tenant and what it asks for, and behind it the tenant, veiled.
///
/// Both are made with the server's key, so that nobody else can make a link from a source that they know, or see
/// whose it is. The tenant is in it because a link that anybody may follow comes alone.
#[derive(Debug, Clone)]
pub(crate) struct Links(Arc<Keyring>);

impl Links {
    pub(crate) fn new(keyring: Arc<Keyring>) -> Self {
        Self(keyring)
    }

    /// The tenant's link to what comes of this request. Another one once the server has another key.
    pub(crate) fn of(&self, tenant: &TenantId, request: &RenderRequest) -> String {
        let tenant = tenant.as_str().as_bytes();
        // With its length, so that no letter can move from the tenant to the request.
        let mut message = (tenant.len() as u64).to_be_bytes().to_vec();
        message.extend(tenant);
        message.extend(request.cache_key());
        let mut link: Vec<u8> = self.0.mac(NAME, &message).into_iter().take(NAME_BYTES).collect();
        let veiled = self.veil(self.0.current_id(), &link, tenant);
        link.extend(veiled);
        URL_SAFE_NO_PAD.encode(link)
    }

    /// Whose a link may be, by each of the server's keys. Those that are nonsense have no such link.
    pub(crate) fn tenants(&self, link: &str) -> Vec<TenantId> {
        let Ok(link) = URL_SAFE_NO_PAD.decode(link) else { return Vec::new() };
        let Some((name, veiled)) = link.split_at_checked(NAME_BYTES) else { return Vec::new() };
        let tenants = self.0.ids().filter_map(|key| {
            let tenant = String::from_utf8(self.veil(key, name, veiled)).ok()?;
            TenantId::new(tenant).ok()
        });
        tenants.collect()
    }

    /// Veils, and unveils.
    fn veil(&self, key: &str, name: &[u8], text: &[u8]) -> Vec<u8> {
        let mut veiled = Vec::with_capacity(text.len());
        for (block, count) in text.chunks(32).zip(0_u8..) {
            let veil = self.0.mac_by(key, VEIL, &[name, &[count]].concat()).unwrap_or_default();
            veiled.extend(block.iter().zip(veil).map(|(letter, veil)| letter ^ veil));
        }
        veiled
    }
}

#[cfg(test)]
mod tests {
    use longhaul_render::{Format, Options, OutputType};
    use proptest::prelude::*;

    use super::*;

    fn request(source: &str) -> RenderRequest {
        RenderRequest {
            source: source.to_owned(),
            format: Format::Mermaid,
            output_type: OutputType::Svg,
            options: Options::default(),
        }
    }

    fn tenant(text: &str) -> TenantId {
        TenantId::new(text).unwrap()
    }

    fn links() -> Links {
        Links::new(Arc::new(Keyring::generate()))
    }

    #[test]
    fn same_request_has_the_same_link_and_another_has_another() {
        let links = links();
        let link = links.of(&tenant("acme"), &request("pie"));
        assert_eq!(link, links.of(&tenant("acme"), &request("pie")));
        assert_ne!(link, links.of(&tenant("acme"), &request("pie ")));
        assert_ne!(link, links.of(&tenant("acmf"), &request("pie")));
        assert_eq!(link.len(), (NAME_BYTES + 4) * 4 / 3 + 1);
        assert!(!link.contains("acme"));
    }

    #[test]
    fn whoever_has_another_key_makes_another_link() {
        let request = request("pie");
        let (ours, theirs) = (links(), links());
        let link = ours.of(&tenant("acme"), &request);
        assert_ne!(link, theirs.of(&tenant("acme"), &request));
        assert!(!theirs.tenants(&link).contains(&tenant("acme")));
    }

    proptest! {
        #[test]
        fn link_tells_its_tenant_to_whoever_has_the_key(name in "[a-zA-Z0-9][a-z0-9._-]{0,63}") {
            let (links, tenant) = (links(), tenant(&name));
            prop_assert_eq!(links.tenants(&links.of(&tenant, &request("pie"))), vec![tenant]);
        }

        #[test]
        fn whatever_is_no_link_is_nobodys_or_nonsense(text in ".{0,200}") {
            links().tenants(&text);
        }
    }
}
