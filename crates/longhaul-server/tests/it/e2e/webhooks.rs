//! Webhooks of the real binary: killed while it delivers, spread over replicas, by hand, and checked by the
//! libraries that receivers use.

mod commands;
mod killed;
mod leaving;
mod libraries;
mod replicas;

use longhaul_client::SubmitOptions;
use longhaul_client::wire::{Job, SubmitRequest, WebhookRequest};
use serde_json::{Value, json};

use super::database::Database;
use super::home::Home;

/// Receivers of tests are on this machine.
const LOOPBACK: &str = "[egress]\nallow = [\"127.0.0.1/32\"]\n";

/// A home with its database. Fields are dropped in this order.
struct Place {
    home: Home,
    _database: Option<Database>,
}

impl Place {
    fn sqlite() -> Self {
        Self { home: Home::with(LOOPBACK), _database: None }
    }

    async fn postgres() -> Self {
        let database = Database::create().await;
        // What a killed server held is free again as soon as a test can wait for it.
        let lease = "[lease]\nduration = \"1500ms\"\nrenew = \"400ms\"\nsweep = \"200ms\"\n";
        let at = format!("database = {:?}\n", database.url());
        let home = Home::with(&format!("{at}{LOOPBACK}{lease}"));
        Self { home, _database: Some(database) }
    }
}

fn own_webhook(url: String) -> WebhookRequest {
    WebhookRequest { url, events: None, secret: None, payload: None }
}

/// Submits a job of three steps that tells this URL what happens to it.
async fn submit_telling(home: &Home, url: String, sleep: &str) -> Job {
    let input: Value = json!({"steps": 3, "sleep": sleep});
    let mut request = SubmitRequest::new("demo", &input).unwrap();
    request.max_attempts = Some(1_000);
    request.webhook = Some(own_webhook(url));
    home.client().submit(&request, &SubmitOptions::default()).await.unwrap()
}
