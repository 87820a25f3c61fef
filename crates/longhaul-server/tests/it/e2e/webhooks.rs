//! Webhooks of the real binary: kills during deliveries, replicas, CLI commands, and verification with
//! published libraries.

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

/// Allows endpoints on this machine, where the fake servers of tests listen.
const LOOPBACK: &str = "[egress]\nallow = [\"127.0.0.1/32\"]\n";

/// An installation with its database. Fields are dropped in this order.
struct WebhookInstallation {
    install: Installation,
    _database: Option<TestDatabase>,
}

impl WebhookInstallation {
    fn sqlite() -> Self {
        Self { install: Installation::with(LOOPBACK), _database: None }
    }

    async fn postgres() -> Self {
        let database = TestDatabase::create().await;
        // Leases short enough to wait for.
        let lease = "[lease]\nduration = \"1500ms\"\nrenew = \"400ms\"\nsweep = \"200ms\"\n";
        let at = format!("database = {:?}\n", database.url());
        let install = Installation::with(&format!("{at}{LOOPBACK}{lease}"));
        Self { install, _database: Some(database) }
    }
}

fn own_webhook(url: String) -> WebhookRequest {
    WebhookRequest { url, events: None, secret: None, payload: None }
}

/// Submits a job of three steps with a webhook to this URL.
async fn submit_with_webhook(install: &Installation, url: String, sleep: &str) -> Job {
    let input: Value = json!({"steps": 3, "sleep": sleep});
    let mut request = SubmitRequest::new("demo", &input).unwrap();
    request.max_attempts = Some(1_000);
    request.webhook = Some(own_webhook(url));
    install.client().submit(&request, &SubmitOptions::default()).await.unwrap()
}
