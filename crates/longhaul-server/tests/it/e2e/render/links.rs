//! `GET /d/{shortlink}`: how pictures are served, to whom, and for how long.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::api::{ask, drawn, flow, get};
use crate::harness::raw_http::{self, RawResponse};
use crate::harness::{Installation, TestProcess};

fn field<'a>(response: &'a RawResponse, name: &str) -> Option<&'a str> {
    let lines = response.head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
}

#[tokio::test]
async fn image_link_has_content_type_and_cache_headers() {
    let install = Installation::new();
    let _server = install.start().await;
    let url = drawn(&install, &flow("Begin")).await;
    let picture = get(&install, &url).await;
    assert_eq!(field(&picture, "content-type"), Some("image/svg+xml"));
    assert_eq!(field(&picture, "cache-control"), Some("private, max-age=86400, immutable"));
    assert_eq!(field(&picture, "x-content-type-options"), Some("nosniff"));
    assert_eq!(field(&picture, "content-disposition"), None);
    let policy = field(&picture, "content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; ") && policy.ends_with("; sandbox"),
        "{policy}"
    );
    assert!(!policy.contains("script-src"), "{policy}");
    assert_eq!(field(&picture, "content-length"), Some(&*picture.body.len().to_string()));

    let etag = field(&picture, "etag").unwrap();
    let known = [("if-none-match", etag)];
    let same = raw_http::send(install.address(), &format!("GET {url}"), &known, "").await.unwrap();
    assert_eq!((same.status, same.body.as_str()), (304, ""));
    assert_eq!(field(&same, "cache-control"), field(&picture, "cache-control"));
    let head = ask(&install, &format!("HEAD {url}"), &Value::Null).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(field(&head, "etag"), Some(etag));

    let saved = get(&install, &format!("{url}?download")).await;
    let attached = field(&saved, "content-disposition").unwrap();
    assert!(
        attached.starts_with("attachment; ") && attached.ends_with("diagram.svg"),
        "{attached}"
    );
    assert_eq!(saved.body, picture.body);
}

#[tokio::test]
async fn rendered_png_has_the_png_signature() {
    let install = Installation::new();
    let _server = install.start().await;
    let mut request = flow("Begin");
    request["outputType"] = json!("png");
    let url = drawn(&install, &request).await;
    let call = format!("GET {url}");
    let mut picture = raw_http::open(install.address(), &call, &[], "").await.unwrap();
    assert!(picture.head.contains("content-type: image/png"), "{}", picture.head);
    let mut bytes = Vec::new();
    picture.body.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.ends_with(b"IEND\xae\x42\x60\x82"));
}

#[tokio::test]
async fn unknown_image_link_is_404() {
    let install = Installation::new();
    let _server = install.start().await;
    let url = drawn(&install, &flow("Begin")).await;
    let changed = format!("{}{}", &url[..url.len() - 2], "AA");
    for path in
        [changed.as_str(), "/d/x", "/d/%ff", "/d/..%2f..%2fetc%2fpasswd", &format!("{url}x")]
    {
        let response = get(&install, path).await;
        assert_eq!(response.status, 404, "{response:?}");
        assert_eq!(response.json(), json!({"error": "unknown short link"}));
    }
    // A job of another kind under such a key is no picture.
    let key = [("idempotency-key", "render/mine")];
    let body = r#"{"kind":"demo","input":{}}"#;
    let made =
        raw_http::send(install.address(), "POST /v1/jobs?mode=sync", &key, body).await.unwrap();
    assert_eq!(made.status, 200);
    assert_eq!(get(&install, "/d/mine").await.status, 404);
}

#[tokio::test]
async fn image_link_expires_with_its_job() {
    let install = Installation::with("[render]\nretention = \"1s\"\n[lease]\nsweep = \"100ms\"\n");
    let _server = install.start().await;
    let expires = drawn(&install, &flow("for a second")).await;
    // Gone once its time is over, which the test waits for without a clock of its own.
    while get(&install, &expires).await.status == 200 {}
    assert_eq!(get(&install, &expires).await.status, 404);
    let again = ask(&install, "POST /render?mode=sync", &flow("for a second")).await.json();
    assert_eq!((&again["cached"], &again["url"]), (&json!(false), &json!(expires)));
}

#[tokio::test]
async fn purged_image_link_is_404_at_once() {
    let install = Installation::new();
    let _server = install.start().await;
    let accepted = ask(&install, "POST /render", &flow("secret")).await.json();
    let url = drawn(&install, &flow("secret")).await;
    let purge = format!("DELETE /v1/jobs/{}", accepted["jobId"].as_str().unwrap());
    assert_eq!(ask(&install, &purge, &Value::Null).await.status, 204);
    assert_eq!(get(&install, &url).await.status, 404);
}

/// Starts a server that requires keys, with a key for each of two tenants.
async fn of_two(config: &str) -> (Installation, TestProcess, [String; 2]) {
    let install = Installation::with(&format!("[auth]\nrequire_keys = true\n{config}"));
    let mut server = TestProcess::spawn(install.serve());
    let line = server.line().await.unwrap();
    let admin = line.split_whitespace().find(|word| word.starts_with("lh_")).unwrap().to_owned();
    let server = install.wait_ready(server).await;
    let mut keys = Vec::new();
    for tenant in ["acme", "bolt"] {
        let made = with(&install, &admin, "POST /v1/tenants", &json!({"id": tenant})).await;
        assert_eq!(made.status, 201, "{made:?}");
        let wish = json!({"tenant": tenant, "name": "x", "scopes": ["submit", "read"]});
        let made = with(&install, &admin, "POST /v1/keys", &wish).await;
        keys.push(made.json()["key"].as_str().unwrap().to_owned());
    }
    (install, server, keys.try_into().unwrap())
}

async fn with(install: &Installation, key: &str, call: &str, body: &Value) -> RawResponse {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let fields = [("authorization", &*format!("Bearer {key}"))];
    raw_http::send(install.address(), call, &fields, &body).await.unwrap()
}

#[tokio::test]
async fn tenants_never_share_an_image_link() {
    let (install, _server, [acme, bolt]) = of_two("").await;
    let draw =
        async |key: &str| with(&install, key, "POST /render?mode=sync", &flow("same")).await.json();
    let (ours, theirs) = (draw(&acme).await, draw(&bolt).await);
    assert_ne!(ours["url"], theirs["url"]);
    assert_eq!(theirs["cached"], false, "what another tenant has drawn tells nothing");
    let call = format!("GET {}", ours["url"].as_str().unwrap());
    assert_eq!(with(&install, &acme, &call, &Value::Null).await.status, 200);
    let foreign = with(&install, &bolt, &call, &Value::Null).await;
    let unknown = with(&install, &bolt, "GET /d/AAAAAAAAAAAAAAAAAAAAAAAAAAA", &Value::Null).await;
    assert_eq!((foreign.status, &foreign.body), (404, &unknown.body));
    assert_eq!(ask(&install, &call, &Value::Null).await.status, 401);
    assert_eq!(ask(&install, "POST /render", &flow("same")).await.status, 401);
}

#[tokio::test]
async fn public_image_link_needs_no_key() {
    let (install, _server, [acme, bolt]) = of_two("[render]\npublic_links = true\n").await;
    let mut urls = Vec::new();
    for (key, label) in [(&acme, "ours"), (&bolt, "theirs")] {
        let drawn = with(&install, key, "POST /render?mode=sync", &flow(label)).await.json();
        let url = drawn["url"].as_str().unwrap().to_owned();
        let picture = get(&install, &url).await;
        assert_eq!(picture.status, 200, "{picture:?}");
        assert!(picture.body.contains(label));
        assert_eq!(field(&picture, "cache-control"), Some("public, max-age=86400, immutable"));
        urls.push(url);
    }
    // A link composed of two valid ones is invalid.
    let mixed = format!("{}{}", &urls[0][..14], &urls[1][14..]);
    for wrong in [mixed.as_str(), "/d/AAAAAAAAAAAAAAAAAAAAAAAAAAA", "/d/x"] {
        let response = get(&install, wrong).await;
        let said = json!({"error": "unknown short link"});
        assert_eq!((response.status, response.json()), (404, said));
    }
    assert_eq!(ask(&install, "POST /render", &flow("x")).await.status, 401);
}
