//! Addresses that are not public, from IANA's special-purpose registries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// Non-public IPv4 networks and their names.
const V4: [(Ipv4Net, &str); 18] = [
    (v4(0, 0, 0, 0, 8), "unspecified"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared (CGNAT)"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    // Metadata service of Azure, in a public range.
    (v4(168, 63, 129, 16, 32), "metadata"),
    (v4(169, 254, 169, 254, 32), "metadata"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "reserved"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "reserved"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "benchmarking"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// The only part of IPv6 that is assigned for use on the internet.
const GLOBAL: Ipv6Net = v6(0x2000, 0, 0, 3);

/// Non-public networks inside of [`GLOBAL`] and named ones outside. Tunnels embed an IPv4 address and are out
/// of use, so they are denied whatever that address is.
const V6: [(Ipv6Net, &str); 10] = [
    (v6(0x2001, 0, 0, 32), "tunnel (Teredo)"),
    (v6(0x2001, 2, 0, 48), "benchmarking"),
    (v6(0x2001, 0xdb8, 0, 32), "documentation"),
    (v6(0x2001, 0, 0, 23), "reserved"),
    (v6(0x2002, 0, 0, 16), "tunnel (6to4)"),
    (v6(0x3fff, 0, 0, 20), "documentation"),
    (v6(0xfc00, 0, 0, 7), "private (unique local)"),
    (v6(0xfe80, 0, 0, 10), "link-local"),
    (v6(0xfec0, 0, 0, 10), "site-local"),
    (v6(0xff00, 0, 0, 8), "multicast"),
];

/// NAT64 prefix, through which networks without IPv4 reach IPv4 addresses.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);

/// Returns the name of the range of an address that is not public.
pub(super) fn special(address: IpAddr) -> Option<&'static str> {
    match (embedded(address), address) {
        (Some(inner), _) | (None, IpAddr::V4(inner)) => special_v4(inner),
        (None, IpAddr::V6(address)) => special_v6(address),
    }
}

/// Returns the IPv4 address that a connection to this IPv6 address reaches.
pub(super) fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = address.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    V4.iter().find(|(network, _)| network.contains(&address)).map(|(_, name)| *name)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        return Some("loopback");
    }
    if address.is_unspecified() {
        return Some("unspecified");
    }
    let named = V6.iter().find(|(network, _)| network.contains(&address)).map(|(_, name)| *name);
    named.or_else(|| (!GLOBAL.contains(&address)).then_some("reserved"))
}
