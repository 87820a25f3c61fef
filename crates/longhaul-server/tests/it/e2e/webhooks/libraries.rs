//! Verifies deliveries of the real server with the Standard Webhooks libraries for JavaScript and Python.

use std::process::Stdio;

use longhaul_client::SubmitOptions;
use longhaul_client::wire::SubmitRequest;
use longhaul_client::wire::{EndpointRequest, RotateRequest};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::LOOPBACK;
use crate::harness::Installation;
use crate::harness::{FakeHttpServer, ReceivedRequest, ThirdParty};

const STRANGER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// As long as the text in JSON.
const OTHER_ID: &str = "msg_01KA3V8J5T0000000000000000";

const SCRIPTS: [ThirdParty; 2] = [
    ThirdParty::Node { script: "e2e/webhooks/verify.mjs", package: "standardwebhooks" },
    ThirdParty::Python { script: "e2e/webhooks/verify.py", venv: "venv" },
];

/// Returns the verdict of a library on each request: `ok` or an error.
async fn verdicts(mut library: Command, requests: &[Value]) -> Vec<String> {
    library.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = library.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(json!(requests).to_string().as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn request(got: &ReceivedRequest, secret: &str) -> Value {
    let fields = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: serde_json::Map<String, Value> =
        fields.iter().map(|name| ((*name).to_owned(), got.header(name).into())).collect();
    let body = std::str::from_utf8(&got.body).unwrap();
    json!({"secret": secret, "headers": headers, "body": body})
}

/// One that is as it came, and what is wrong with each of the others.
fn requests(got: &ReceivedRequest, secret: &str) -> [Value; 5] {
    let good = request(got, secret);
    let with = |pointer: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let body = good["body"].as_str().unwrap();
    let changed = body.replacen("job.pending", "job.running", 1);
    assert_ne!(changed, body);
    let seconds: i64 = got.header("webhook-timestamp").parse().unwrap();
    [
        good.clone(),
        with("/secret", STRANGER.into()),
        with("/body", changed.into()),
        with("/headers/webhook-id", OTHER_ID.into()),
        with("/headers/webhook-timestamp", (seconds - 1).to_string().into()),
    ]
}

#[tokio::test]
async fn standard_webhooks_libraries_verify_deliveries() {
    let install = Installation::with(LOOPBACK);
    let _server = install.start().await;
    let receiver = FakeHttpServer::good().await;
    let wish = EndpointRequest {
        url: receiver.url(),
        description: None,
        events: Some(vec!["job.pending".to_owned()]),
        payload: None,
    };
    let client = install.client();
    let made = client.create_endpoint(&wish).await.unwrap();
    // Text that is written otherwise in many ways: what is signed is the bytes.
    let mut job =
        SubmitRequest::new("demo", &json!({"result": "späße \u{1f9c0} </script> 1.0"})).unwrap();
    job.labels.insert("ort".to_owned(), "Zürich/\"Süd\" \u{2028}".to_owned());
    client.submit(&job, &SubmitOptions::default()).await.unwrap();
    let before = receiver.first(1).await.remove(0);
    let new =
        client.rotate_endpoint(&made.endpoint.id, &RotateRequest { overlap: None }).await.unwrap();
    client.submit(&job, &SubmitOptions::default()).await.unwrap();
    let during = receiver.first(2).await.remove(1);

    for library in SCRIPTS {
        // The original secret, and during a rotation either of both.
        for (got, secret) in
            [(&before, &made.secret), (&during, &made.secret), (&during, &new.secret)]
        {
            let verdicts = verdicts(library.command(), &requests(got, secret)).await;
            assert_eq!(verdicts[0], "ok");
            assert_eq!(verdicts.len(), 5);
            for refused in &verdicts[1..] {
                assert!(refused.starts_with("refused: "), "{verdicts:?}");
            }
        }
        let too_early = verdicts(library.command(), &[request(&before, &new.secret)]).await;
        assert!(too_early[0].starts_with("refused: "), "{too_early:?}");
    }
}
