//! Webhooks of the real binary: killed while it delivers, spread over replicas, by hand, and checked by the
//! libraries that receivers use.

mod closed_connections;
mod commands;
mod killed;
mod libraries;
mod replicas;

use longhaul_client::SubmitOptions;
use longhaul_client::wire::{Job, SubmitRequest, WebhookRequest};
use serde_json::{Value, json};

use crate::harness::Installation;
use crate::harness::TestDatabase;

/// FakeHttpServers of tests are on this machine.
const LOOPBACK: &str = "[egress]\nallow = [\"127.0.0.1/32\"]\n";

/// A install with its database. Fields are dropped in this order.
struct Place {
    install: Installation,
    _database: Option<TestDatabase>,
}

impl Place {
    fn sqlite() -> Self {
        Self { install: Installation::with(LOOPBACK), _database: None }
    }

    async fn postgres() -> Self {
        let database = TestDatabase::create().await;
        // What a killed server held is free again as soon as a test can wait for it.
        let lease = "[lease]\nduration = \"1500ms\"\nrenew = \"400ms\"\nsweep = \"200ms\"\n";
        let at = format!("database = {:?}\n", database.url());
        let install = Installation::with(&format!("{at}{LOOPBACK}{lease}"));
        Self { install, _database: Some(database) }
    }
}

fn own_webhook(url: String) -> WebhookRequest {
    WebhookRequest { url, events: None, secret: None, payload: None }
}

/// Submits a job of three steps that tells this URL what happens to it.
async fn submit_telling(install: &Installation, url: String, sleep: &str) -> Job {
    let input: Value = json!({"steps": 3, "sleep": sleep});
    let mut request = SubmitRequest::new("demo", &input).unwrap();
    request.max_attempts = Some(1_000);
    request.webhook = Some(own_webhook(url));
    install.client().submit(&request, &SubmitOptions::default()).await.unwrap()
}
