//! Only addresses that were judged are dialled.

use std::process::Command;

use http::header::{CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderValue, StatusCode};
use tokio::net::TcpListener;

use super::{GOOD, INNER, Names, OK, PUBLIC, Play, Receiver, client, nameless, post};
use crate::egress::{SendError, UrlDenied};

fn refused_loopback() -> SendError {
    let name = "hooks.example".to_owned();
    SendError::Denied(UrlDenied::Name { name, range: "loopback" })
}

#[tokio::test]
async fn request_arrives_under_the_urls_own_host() {
    let mut receiver = Receiver::start(Play::EgressResponse(OK.to_vec())).await;
    let port = receiver.port();
    let client = client(Names::answering([&[GOOD]]));
    let mut request = post(format!("http://hooks.example:{port}/a?b=c"));
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers.insert(HOST, HeaderValue::from_static("admin.internal"));
    request.headers.insert("content-length", HeaderValue::from_static("99"));
    let answer = client.send(request).await.unwrap();
    assert_eq!((answer.status, &answer.body_prefix[..]), (StatusCode::OK, &b"ok"[..]));
    let version = env!("CARGO_PKG_VERSION");
    let mut lines: Vec<String> = receiver.request().await.lines().map(str::to_owned).collect();
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
async fn redirect_is_an_answer_and_is_not_followed() {
    let elsewhere = Receiver::start(Play::EgressResponse(OK.to_vec())).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://{}/", elsewhere.address);
        let answer = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: {location}\r\nconnection: close\r\n\
             content-length: 0\r\n\r\n"
        );
        let receiver = Receiver::start(Play::EgressResponse(answer.into())).await;
        let answer = nameless().send(post(format!("http://{}/", receiver.address))).await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.headers[LOCATION], location);
    }
    elsewhere.was_never_called().await;
}

#[tokio::test]
async fn address_that_is_refused_is_not_dialled() {
    let (good, inner) = Receiver::pair(Play::EgressResponse(OK.to_vec())).await;
    let port = good.port();
    for host in ["127.0.0.2", "127.2", "[::ffff:127.0.0.2]", "2130706434"] {
        let denied = nameless().send(post(format!("http://{host}:{port}/"))).await.unwrap_err();
        let address = INNER;
        assert_eq!(denied, SendError::Denied(UrlDenied::Address { address, range: "loopback" }));
    }
    inner.was_never_called().await;
}

#[tokio::test]
async fn name_with_one_bad_address_is_not_dialled_at_all() {
    let (good, inner) = Receiver::pair(Play::EgressResponse(OK.to_vec())).await;
    for addresses in [[GOOD, INNER], [INNER, GOOD], [PUBLIC, INNER]] {
        let client = client(Names::answering([&addresses]));
        let denied = client.send(post(format!("http://hooks.example:{}/", good.port()))).await;
        assert_eq!(denied.unwrap_err(), refused_loopback(), "{addresses:?}");
    }
    good.was_never_called().await;
    inner.was_never_called().await;
}

#[tokio::test]
async fn name_that_changes_after_it_was_checked_does_not_lead_inside() {
    let (mut good, inner) = Receiver::pair(Play::EgressResponse(OK.to_vec())).await;
    let url = format!("http://hooks.example:{}/", good.port());
    // Good when it is submitted, inner when it is sent.
    let turned = client(Names::answering([&[GOOD], &[INNER]]));
    assert!(turned.check_submission(&url).await.is_ok());
    assert_eq!(turned.send(post(&url)).await.unwrap_err(), refused_loopback());
    // Good for one call, inner for the next: what was looked up for the first is what was dialled.
    let turns = client(Names::answering([&[GOOD], &[INNER]]));
    assert_eq!(turns.send(post(&url)).await.unwrap().status, StatusCode::OK);
    assert!(good.request().await.starts_with("POST /"));
    assert_eq!(turns.send(post(&url)).await.unwrap_err(), refused_loopback());
    inner.was_never_called().await;
}

#[tokio::test]
async fn low_ports_are_dialled_in_allowed_networks_alone() {
    let outside = client(Names::answering([&[PUBLIC]]));
    let denied = outside.send(post("http://hooks.example:1/")).await.unwrap_err();
    assert_eq!(denied, SendError::Denied(UrlDenied::Port(1)));
    let mixed = client(Names::answering([&[GOOD, PUBLIC]]));
    let denied = mixed.send(post("http://hooks.example:1/")).await.unwrap_err();
    assert_eq!(denied, SendError::Denied(UrlDenied::Port(1)));
    // Dialled, and nobody is there.
    let inside = client(Names::answering([&[GOOD]]));
    let error = inside.send(post("http://hooks.example:1/")).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
}

#[tokio::test]
async fn name_without_an_address_is_told_apart_from_one_that_is_refused() {
    for client in [nameless(), client(Names::answering([&[]]))] {
        let error = client.send(post("http://hooks.example/")).await.unwrap_err();
        assert_eq!(error.code(), "unresolved", "{error}");
    }
}

/// The environment cannot be changed in a process that has threads, so another one runs the test above.
#[tokio::test]
async fn proxies_of_the_environment_are_not_asked() {
    let proxy = Receiver::start(Play::EgressResponse(OK.to_vec())).await;
    let url = format!("http://{}", proxy.address);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "egress::tests::dialling::request_arrives_under_the_urls_own_host";
    command.args(["--exact", test]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        command.env(name, &url);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    proxy.was_never_called().await;
}

#[tokio::test]
async fn nobody_there_is_told() {
    let listener = TcpListener::bind((GOOD, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let request = post(format!("http://{address}/s3cret"));
    let shown = format!("{request:?}");
    assert_eq!(shown, "EgressRequest { method: POST, bytes: 2, timeout: 60s, .. }");
    let error = nameless().send(request).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}
