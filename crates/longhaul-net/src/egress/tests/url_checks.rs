//! URL checks before a connection.

use proptest::prelude::*;

use super::{FixedResolver, GOOD, INNER, PUBLIC, client, policy};
use crate::egress::{Client, Policy, UrlDenied};

/// Returns the range of a URL's address, or `public`.
fn range(policy: &Policy, url: &str) -> &'static str {
    match policy.check_url(url) {
        Ok(_) => "public",
        Err(UrlDenied::Address { range, .. }) => range,
        Err(other) => panic!("{url}: {other:?}"),
    }
}

#[test]
fn all_spellings_of_an_address_are_recognized() {
    let nothing = Policy::default();
    for spelling in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0x7F.1",
        "0177.0.0.1",
        "0177.0.0.01",
        "017700000001",
        "127.0.0.0x1",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[0000:0000:0000:0000:0000:ffff:7f00:0001]",
    ] {
        for scheme in ["http", "HTTPS"] {
            assert_eq!(
                range(&nothing, &format!("{scheme}://{spelling}/")),
                "loopback",
                "{spelling}"
            );
        }
    }
    for spelling in
        ["http:\\\\127.0.0.1\\", "http:127.0.0.1", "http:/127.0.0.1", "http:///127.0.0.1"]
    {
        assert_eq!(range(&nothing, spelling), "loopback", "{spelling}");
    }
}

#[test]
fn non_public_addresses_are_denied() {
    let nothing = Policy::default();
    for (expected, hosts) in [
        ("unspecified", &["0.0.0.0", "0", "0.1.2.3", "[::]", "[::ffff:0.0.0.0]"][..]),
        (
            "private",
            &[
                "10.0.0.1",
                "10.255.255.255",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.0.1",
                "[::ffff:10.1.2.3]",
                "[64:ff9b::10.1.2.3]",
                "0xc0a80001",
                "192.168.257",
            ],
        ),
        ("loopback", &["127.0.0.53"]),
        ("shared (CGNAT)", &["100.64.0.1", "100.127.255.255", "100.100.100.200"]),
        (
            "metadata",
            &[
                "169.254.169.254",
                "2852039166",
                "[::ffff:a9fe:a9fe]",
                "168.63.129.16",
                "[64:ff9b::a9fe:a9fe]",
            ],
        ),
        ("link-local", &["169.254.0.1", "169.254.170.2", "[fe80::1]", "[febf::1]"]),
        (
            "reserved",
            &[
                "192.0.0.192",
                "192.88.99.1",
                "240.0.0.1",
                "255.255.255.254",
                "[::2]",
                "[::127.0.0.1]",
                "[::8.8.8.8]",
                "[64:ff9b:1::7f00:1]",
                "[100::1]",
                "[4000::1]",
                "[2001:20::1]",
                "[5f00::1]",
                "[::ffff:0:127.0.0.1]",
            ],
        ),
        (
            "documentation",
            &["192.0.2.1", "198.51.100.1", "203.0.113.1", "[2001:db8::1]", "[3fff::1]"],
        ),
        ("benchmarking", &["198.18.0.1", "198.19.255.255", "[2001:2::1]"]),
        ("multicast", &["224.0.0.1", "239.255.255.255", "[ff02::1]"]),
        ("broadcast", &["255.255.255.255"]),
        ("tunnel (6to4)", &["[2002:7f00:1::1]", "[2002:808:808::1]"]),
        ("tunnel (Teredo)", &["[2001:0:7f00:1::1]"]),
        ("private (unique local)", &["[fd00:ec2::254]", "[fc00::1]", "[fd20:ce::254]"]),
        ("site-local", &["[fec0::1]"]),
        (
            "public",
            &[
                "8.8.8.8",
                "1.1.1.1",
                "172.15.255.255",
                "172.32.0.1",
                "100.63.255.255",
                "100.128.0.1",
                "192.0.1.1",
                "223.255.255.255",
                "[2606:4700:4700::1111]",
                "[::ffff:8.8.8.8]",
                "[64:ff9b::8.8.8.8]",
                "[2001:4860:4860::8888]",
            ],
        ),
    ] {
        for host in hosts {
            assert_eq!(range(&nothing, &format!("https://{host}/hook")), expected, "{host}");
        }
    }
}

#[test]
fn allowed_networks_are_permitted_on_all_ports() {
    let networks = ["127.0.0.1/32", "10.1.0.0/16", "fd00::/8"];
    let policy = Policy::new(networks.map(|text| text.parse().unwrap()));
    for good in ["127.0.0.1", "127.1:22", "[::ffff:127.0.0.1]:25", "10.1.255.1:8080", "[fd00::9]:1"]
    {
        assert_eq!(range(&policy, &format!("http://{good}/")), "public", "{good}");
    }
    assert_eq!(range(&policy, "http://127.0.0.2/"), "loopback");
    assert_eq!(range(&policy, "http://10.2.0.1/"), "private");
    assert_eq!(range(&policy, "http://[::1]/"), "loopback");
    assert_eq!(range(&policy, "http://[2002:7f00:1::]/"), "tunnel (6to4)");
    assert_eq!(range(&policy, "http://[::127.0.0.1]/"), "reserved", "it is no way to 127.0.0.1");
}

#[test]
fn public_hosts_are_permitted_on_web_and_high_ports() {
    let nothing = Policy::default();
    for host in ["8.8.8.8", "hooks.example", "[2606:4700::1]"] {
        for good in ["", ":80", ":443", ":1024", ":8443", ":65535"] {
            assert!(nothing.check_url(&format!("http://{host}{good}/")).is_ok(), "{host}{good}");
        }
        for bad in [0, 1, 22, 25, 79, 81, 442, 444, 1023] {
            let denied = nothing.check_url(&format!("https://{host}:{bad}/")).unwrap_err();
            assert_eq!(denied, UrlDenied::Port(bad), "{host}");
        }
    }
    // A name may lead to an allowed address, which is found when it is resolved.
    assert!(policy().check_url("http://hooks.example:25/").is_ok());
    assert_eq!(policy().check_url("http://hooks.example:0/"), Err(UrlDenied::Port(0)));
    assert_eq!(policy().check_url("http://127.0.0.1:0/"), Err(UrlDenied::Port(0)));
}

#[test]
fn denied_urls_name_the_reason() {
    let long = format!("https://hooks.example/{}", "a".repeat(2_048));
    let grows = format!("https://hooks.example/{}", "ä".repeat(700));
    let reasons = [
        "",
        "hooks.example/x",
        "//hooks.example",
        "https://",
        "https://?x",
        "https://[::1",
        "https://1.2.3.4.5",
        "https://256.1.1.1",
        "https://a b/",
        "https://hooks.example/\n",
        " https://hooks.example",
        "https://hooks.example:99999/",
        "file:///etc/passwd",
        "gopher://hooks.example/",
        "javascript:x",
        "unix:/run/docker.sock",
        "https://me:hush@hooks.example/",
        "https://me@hooks.example/",
        "https://hooks.example@10.0.0.1/",
        "https://hooks.example/#part",
        "https://hooks.example:22/",
        "http://10.0.0.1/",
        &long,
        &grows,
    ]
    .map(|url| {
        let denied = Policy::default().check_url(url).unwrap_err().to_string();
        assert!(!denied.contains("hush"));
        format!("{}: {denied}", url.escape_debug().to_string().chars().take(40).collect::<String>())
    });
    insta::assert_snapshot!(reasons.join("\n"));
}

#[test]
fn checked_url_is_normalized_and_debug_output_hides_secrets() {
    let target = Policy::default().check_url("HTTPS://Hooks.Example:443/t0ken?k=s3cret").unwrap();
    assert_eq!(target.as_str(), "https://hooks.example/t0ken?k=s3cret");
    assert_eq!(target.origin(), "https://hooks.example");
    assert_eq!(format!("{target:?}"), r#"CheckedUrl("https://hooks.example")"#);
}

#[tokio::test]
async fn name_with_a_non_public_address_is_denied_at_submission() {
    let url = "http://hooks.example/";
    for (addresses, range) in [
        (&[INNER][..], "loopback"),
        (&[GOOD, PUBLIC, INNER], "loopback"),
        (&["::ffff:10.0.0.1".parse().unwrap()], "private"),
    ] {
        let denied = client(FixedResolver::returning([addresses])).check_submission(url).await;
        let name = "hooks.example".to_owned();
        assert_eq!(denied, Err(UrlDenied::Name { name, range }), "{addresses:?}");
    }
    for addresses in [&[GOOD][..], &[PUBLIC], &[PUBLIC, GOOD]] {
        let taken = client(FixedResolver::returning([addresses])).check_submission(url).await;
        assert!(taken.is_ok(), "{addresses:?}");
    }
    let on_port_25 = |address| async move {
        client(FixedResolver::returning([&[address]]))
            .check_submission("http://hooks.example:25/")
            .await
    };
    assert_eq!(on_port_25(PUBLIC).await, Err(UrlDenied::Port(25)));
    assert!(on_port_25(GOOD).await.is_ok());
}

#[tokio::test]
async fn unresolvable_name_is_accepted_at_submission() {
    assert!(
        client(FixedResolver::returning([]))
            .check_submission("http://later.example/")
            .await
            .is_ok()
    );
    assert!(
        client(FixedResolver::returning([&[]]))
            .check_submission("http://later.example/")
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn localhost_is_resolved_like_other_names() {
    let denied = Client::new(Policy::default()).check_submission("http://localhost:8080/").await;
    let name = "localhost".to_owned();
    assert_eq!(denied, Err(UrlDenied::Name { name, range: "loopback" }));
    let networks = ["127.0.0.0/8", "::1/128"].map(|text| text.parse().unwrap());
    let client = Client::new(Policy::new(networks));
    assert!(client.check_submission("http://localhost:81/").await.is_ok());
}

proptest! {
    #[test]
    fn url_check_never_panics(text in "(https?://)?\\PC{0,60}") {
        if let Ok(target) = Policy::default().check_url(&text) {
            prop_assert!(target.as_str().starts_with("http"));
        }
    }

    #[test]
    fn embedded_ipv4_addresses_are_checked(bits: u32) {
        let inner = std::net::Ipv4Addr::from(bits);
        let nothing = Policy::default();
        let expected = range(&nothing, &format!("http://{inner}/"));
        for outer in [format!("[::ffff:{inner}]"), format!("[64:ff9b::{inner}]"), bits.to_string()] {
            prop_assert_eq!(range(&nothing, &format!("http://{outer}/")), expected);
        }
    }
}
