//! Only addresses that were expected are dialled.

use std::process::Command;

use http::header::{CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderValue, StatusCode};
use tokio::net::TcpListener;

use super::{
    Behaviour, FixedResolver, GOOD, INNER, OK, PUBLIC, TestEndpoint, client, client_without_names,
    post,
};
use crate::egress::{SendError, UrlDenied};

fn denied_loopback() -> SendError {
    let name = "hooks.example".to_owned();
    SendError::Denied(UrlDenied::Name { name, range: "loopback" })
}

#[tokio::test]
async fn request_has_the_host_of_the_url() {
    let mut endpoint = TestEndpoint::start(Behaviour::Respond(OK.to_vec())).await;
    let port = endpoint.port();
    let client = client(FixedResolver::returning([&[GOOD]]));
    let mut request = post(format!("http://hooks.example:{port}/a?b=c"));
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers.insert(HOST, HeaderValue::from_static("admin.internal"));
    request.headers.insert("content-length", HeaderValue::from_static("99"));
    let answer = client.send(request).await.unwrap();
    assert_eq!((answer.status, &answer.body_prefix[..]), (StatusCode::OK, &b"ok"[..]));
    let version = env!("CARGO_PKG_VERSION");
    let mut lines: Vec<String> = endpoint.request().await.lines().map(str::to_owned).collect();
    let expected = [
        "POST /a?b=c HTTP/1.1".to_owned(),
        "accept: */*".to_owned(),
        "content-length: 2".to_owned(),
        "content-type: application/json".to_owned(),
        format!("host: hooks.example:{port}"),
        format!("user-agent: longhaul/{version}"),
        String::new(),
        "{}".to_owned(),
    ];
    lines[1..6].sort();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn redirect_is_returned_and_not_followed() {
    let elsewhere = TestEndpoint::start(Behaviour::Respond(OK.to_vec())).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://{}/", elsewhere.address);
        let answer = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: {location}\r\nconnection: close\r\n\
             content-length: 0\r\n\r\n"
        );
        let endpoint = TestEndpoint::start(Behaviour::Respond(answer.into())).await;
        let answer = client_without_names()
            .send(post(format!("http://{}/", endpoint.address)))
            .await
            .unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.headers[LOCATION], location);
    }
    elsewhere.was_never_called().await;
}

#[tokio::test]
async fn denied_address_is_not_dialled() {
    let (good, inner) = TestEndpoint::pair(Behaviour::Respond(OK.to_vec())).await;
    let port = good.port();
    for host in ["127.0.0.2", "127.2", "[::ffff:127.0.0.2]", "2130706434"] {
        let denied =
            client_without_names().send(post(format!("http://{host}:{port}/"))).await.unwrap_err();
        let address = INNER;
        assert_eq!(denied, SendError::Denied(UrlDenied::Address { address, range: "loopback" }));
    }
    inner.was_never_called().await;
}

#[tokio::test]
async fn name_with_one_denied_address_is_not_dialled() {
    let (good, inner) = TestEndpoint::pair(Behaviour::Respond(OK.to_vec())).await;
    for addresses in [[GOOD, INNER], [INNER, GOOD], [PUBLIC, INNER]] {
        let client = client(FixedResolver::returning([&addresses]));
        let denied = client.send(post(format!("http://hooks.example:{}/", good.port()))).await;
        assert_eq!(denied.unwrap_err(), denied_loopback(), "{addresses:?}");
    }
    good.was_never_called().await;
    inner.was_never_called().await;
}

#[tokio::test]
async fn name_that_changes_after_its_check_is_not_dialled() {
    let (mut good, inner) = TestEndpoint::pair(Behaviour::Respond(OK.to_vec())).await;
    let url = format!("http://hooks.example:{}/", good.port());
    // Good when it is submitted, inner when it is sent.
    let turned = client(FixedResolver::returning([&[GOOD], &[INNER]]));
    assert!(turned.check_submission(&url).await.is_ok());
    assert_eq!(turned.send(post(&url)).await.unwrap_err(), denied_loopback());
    // Good for one call, inner for the next: what was looked up for the first is what was dialled.
    let turns = client(FixedResolver::returning([&[GOOD], &[INNER]]));
    assert_eq!(turns.send(post(&url)).await.unwrap().status, StatusCode::OK);
    assert!(good.request().await.starts_with("POST /"));
    assert_eq!(turns.send(post(&url)).await.unwrap_err(), denied_loopback());
    inner.was_never_called().await;
}

#[tokio::test]
async fn low_ports_are_dialled_in_allowed_networks_only() {
    let outside = client(FixedResolver::returning([&[PUBLIC]]));
    let denied = outside.send(post("http://hooks.example:1/")).await.unwrap_err();
    assert_eq!(denied, SendError::Denied(UrlDenied::Port(1)));
    let mixed = client(FixedResolver::returning([&[GOOD, PUBLIC]]));
    let denied = mixed.send(post("http://hooks.example:1/")).await.unwrap_err();
    assert_eq!(denied, SendError::Denied(UrlDenied::Port(1)));
    // Dialled, without a server there.
    let inside = client(FixedResolver::returning([&[GOOD]]));
    let error = inside.send(post("http://hooks.example:1/")).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
}

#[tokio::test]
async fn unresolved_name_has_its_own_error_code() {
    for client in [client_without_names(), client(FixedResolver::returning([&[]]))] {
        let error = client.send(post("http://hooks.example/")).await.unwrap_err();
        assert_eq!(error.code(), "unresolved", "{error}");
    }
}

/// Runs the test above in another process, because the environment must not change in one with threads.
#[tokio::test]
async fn proxies_from_the_environment_are_ignored() {
    let proxy = TestEndpoint::start(Behaviour::Respond(OK.to_vec())).await;
    let url = format!("http://{}", proxy.address);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "egress::tests::connections::request_has_the_host_of_the_url";
    command.args(["--exact", test]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        command.env(name, &url);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let output_text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output_text.contains("1 passed"), "{output_text}");
    proxy.was_never_called().await;
}

#[tokio::test]
async fn unreachable_endpoint_is_reported_without_the_url() {
    let listener = TcpListener::bind((GOOD, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let request = post(format!("http://{address}/s3cret"));
    let shown = format!("{request:?}");
    assert_eq!(shown, "EgressRequest { method: POST, bytes: 2, timeout: 60s, .. }");
    let error = client_without_names().send(request).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}
