//! Short links.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul::TenantId;
use longhaul::blob::Keyring;
use longhaul_render::RenderRequest;

const NAME: &[u8] = b"short link";
const TENANT_MASK: &[u8] = b"tenant of a short link";
/// 128 bits, so that names cannot be guessed and do not collide.
const NAME_BYTES: usize = 16;

/// Derives links: a MAC of the tenant and the request, followed by the masked tenant id.
///
/// Both depend on the server's key, so that a link can neither be computed from a known source nor reveal its
/// tenant. The tenant is included because requests for public links are not authenticated.
#[derive(Debug, Clone)]
pub(crate) struct Links(Arc<Keyring>);

impl Links {
    pub(crate) fn new(keyring: Arc<Keyring>) -> Self {
        Self(keyring)
    }

    /// The tenant's link to what comes of this request. Another one once the server has another key.
    pub(crate) fn of(&self, tenant: &TenantId, request: &RenderRequest) -> String {
        let tenant = tenant.as_str().as_bytes();
        // Length-prefixed, so that the boundary between tenant and request is unambiguous.
        let mut message = (tenant.len() as u64).to_be_bytes().to_vec();
        message.extend(tenant);
        message.extend(request.cache_key());
        let mut link: Vec<u8> = self.0.mac(NAME, &message).into_iter().take(NAME_BYTES).collect();
        let masked = self.mask(self.0.current_id(), &link, tenant);
        link.extend(masked);
        URL_SAFE_NO_PAD.encode(link)
    }

    /// Returns the possible tenants of a link, one per server key. A wrong key yields an id without such a link.
    pub(crate) fn tenants(&self, link: &str) -> Vec<TenantId> {
        let Ok(link) = URL_SAFE_NO_PAD.decode(link) else { return Vec::new() };
        let Some((name, masked)) = link.split_at_checked(NAME_BYTES) else { return Vec::new() };
        let tenants = self.0.ids().filter_map(|key| {
            let tenant = String::from_utf8(self.mask(key, name, masked)).ok()?;
            TenantId::new(tenant).ok()
        });
        tenants.collect()
    }

    /// Masks a tenant id, or unmasks it.
    fn mask(&self, key: &str, name: &[u8], text: &[u8]) -> Vec<u8> {
        let mut masked = Vec::with_capacity(text.len());
        for (block, count) in text.chunks(32).zip(0_u8..) {
            let mask =
                self.0.mac_by(key, TENANT_MASK, &[name, &[count]].concat()).unwrap_or_default();
            masked.extend(block.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
        }
        masked
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
    fn short_link_depends_on_tenant_and_request() {
        let links = links();
        let link = links.of(&tenant("acme"), &request("pie"));
        assert_eq!(link, links.of(&tenant("acme"), &request("pie")));
        assert_ne!(link, links.of(&tenant("acme"), &request("pie ")));
        assert_ne!(link, links.of(&tenant("acmf"), &request("pie")));
        assert_eq!(link.len(), (NAME_BYTES + 4) * 4 / 3 + 1);
        assert!(!link.contains("acme"));
    }

    #[test]
    fn short_link_depends_on_the_server_key() {
        let request = request("pie");
        let (ours, theirs) = (links(), links());
        let link = ours.of(&tenant("acme"), &request);
        assert_ne!(link, theirs.of(&tenant("acme"), &request));
        assert!(!theirs.tenants(&link).contains(&tenant("acme")));
    }

    proptest! {
        #[test]
        fn short_link_reveals_its_tenant_with_the_server_key(name in "[a-zA-Z0-9][a-z0-9._-]{0,63}") {
            let (links, tenant) = (links(), tenant(&name));
            prop_assert_eq!(links.tenants(&links.of(&tenant, &request("pie"))), vec![tenant]);
        }

        #[test]
        fn malformed_short_links_are_handled(text in ".{0,200}") {
            links().tenants(&text);
        }
    }
}
