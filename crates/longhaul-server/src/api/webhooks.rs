//! Webhook endpoints, deliveries, and webhooks of single jobs.

pub(crate) mod deliveries;
pub(crate) mod endpoints;

use std::fmt;
use std::sync::Arc;

use longhaul::TenantId;
use longhaul::job::{EventFilter, Webhook, WebhookFormat};
use longhaul::store::endpoints::Endpoints;
use longhaul_client::wire::{PayloadSize, WebhookRequest};
use utoipa_axum::routes;

use crate::api::http::caller::{DeleteWebhooks, Inspect, ManageWebhooks, Read};
use crate::api::http::load_shedding::Class;
use crate::api::http::routes::Routes;
use crate::problem::{Code, Problem, Result};
use crate::webhooks::Secrets;
use crate::webhooks::signature::SigningSecret;
use longhaul_net::egress;

/// Dependencies of the webhook handlers.
#[derive(Clone)]
pub struct Webhooks {
    pub endpoints: Arc<dyn Endpoints>,
    /// Seals signing secrets.
    pub secrets: Secrets,
    /// Checks URLs against the egress policy.
    pub client: egress::Client,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

pub(super) fn router() -> Routes {
    Routes::new()
        .route::<ManageWebhooks>(Class::Normal, routes!(endpoints::create_endpoint))
        .route::<Inspect>(Class::Normal, routes!(endpoints::list_endpoints))
        .route::<Inspect>(Class::Normal, routes!(endpoints::get_endpoint))
        .route::<ManageWebhooks>(Class::Normal, routes!(endpoints::change_endpoint))
        .route::<DeleteWebhooks>(Class::Normal, routes!(endpoints::delete_endpoint))
        .route::<ManageWebhooks>(Class::Normal, routes!(endpoints::rotate_endpoint_secret))
        .route::<ManageWebhooks>(Class::Normal, routes!(endpoints::try_endpoint))
        .route::<ManageWebhooks>(Class::Normal, routes!(endpoints::get_webhook_secret))
        .route::<Read>(Class::Normal, routes!(deliveries::list_deliveries))
        .route::<Read>(Class::Normal, routes!(deliveries::get_delivery))
        .route::<ManageWebhooks>(Class::Normal, routes!(deliveries::resend_delivery))
        .route::<ManageWebhooks>(Class::Normal, routes!(deliveries::resend_deliveries))
        .route::<Read>(Class::Normal, routes!(deliveries::list_job_deliveries))
}

impl Webhooks {
    /// Validates the webhook of a submission.
    pub(crate) async fn job_webhook(
        &self,
        tenant: &TenantId,
        request: Option<WebhookRequest>,
    ) -> Result<Option<Webhook>> {
        let Some(WebhookRequest { url, events, secret, payload }) = request else {
            return Ok(None);
        };
        self.check(&url).await?;
        let secret = secret.map(|text| text.parse::<SigningSecret>()).transpose();
        let secret =
            secret.map_err(|error| Problem::invalid(format_args!("webhook.secret: {error}")))?;
        let sealed_secret = secret.map(|secret| self.secrets.seal(&secret, tenant, &url));
        Ok(Some(Webhook {
            events: event_filter(events.as_deref())?,
            full: payload == Some(PayloadSize::Full),
            sealed_secret,
            format: WebhookFormat::Standard,
            url,
        }))
    }

    /// Rejects a URL that the egress policy forbids.
    pub(crate) async fn check(&self, url: &str) -> Result<()> {
        match Box::pin(self.client.check_submission(url)).await {
            Ok(_) => Ok(()),
            Err(refused) => {
                let detail = format!("webhook URL is not allowed: {refused}");
                Err(Problem::new(Code::UrlRefused, detail))
            }
        }
    }
}

fn event_filter(events: Option<&[String]>) -> Result<EventFilter> {
    let words = events.unwrap_or_default().iter().map(String::as_str);
    EventFilter::new(words).map_err(Problem::invalid)
}
