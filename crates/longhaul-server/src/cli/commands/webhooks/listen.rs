//! `longhaul listen`: a webhook receiver for development.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use clap::Args;
use longhaul::clock::Clock;
use longhaul::job::Timestamp;
use longhaul_net::egress::{self, EgressRequest, Policy};
use longhaul_server::webhooks::signature::{ID, SigningSecret, verify};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::cli::output::color::{Paint, Style, printable};
use crate::cli::output::time::{clock_time, span};
use crate::cli::{CliError, CliResult, Ui};

/// Limit on the size of a delivery, far above what the server sends.
const DELIVERY_BYTES_MAX: usize = 16 << 20;
/// Bytes of a forwarded response; the server reads no more.
const RESPONSE_BYTES_MAX: usize = 64 << 10;
/// Timeout of the server for a delivery.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(15);
/// Deliveries queued for printing.
const QUEUED_MAX: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Port to listen on, on loopback only; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 4040)]
    port: u16,
    /// Address and port to listen on instead, which other machines may reach
    #[arg(long, value_name = "ADDRESS", conflicts_with = "port")]
    listen: Option<SocketAddr>,
    /// Signing secret, whsec_…, to verify deliveries with
    #[arg(long, env = "LONGHAUL_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Forward each delivery to this URL and return its response
    #[arg(long, value_name = "URL", conflicts_with = "status")]
    forward: Option<String>,
    /// Status to respond with, even if the signature is invalid
    #[arg(
        long,
        value_name = "STATUS",
        default_value_t = 200,
        value_parser = clap::value_parser!(u16).range(200..600)
    )]
    status: u16,
}

struct WebhookReceiver {
    secret: Option<SigningSecret>,
    forward: Option<(egress::Client, String)>,
    status: StatusCode,
    clock: Clock,
    seen: mpsc::Sender<ReceivedDelivery>,
}

/// A delivery and the response to it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceivedDelivery {
    received_at: Timestamp,
    method: String,
    path: String,
    id: Option<String>,
    signature: SignatureCheck,
    signature_error: Option<String>,
    answered: u16,
    forward_ms: Option<u64>,
    forward_error: Option<String>,
    body: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum SignatureCheck {
    Ok,
    Wrong,
    NotChecked,
}

pub(crate) async fn run(args: ListenArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let (seen, mut deliveries) = mpsc::channel(QUEUED_MAX);
    let address =
        args.listen.unwrap_or_else(|| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), args.port));
    let receiver = receiver(args, seen)?;
    // Before the address is printed, so that no signal is lost after that.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(anyhow::Error::from)?;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let hint = "--port sets another port; --port 0 picks a free one";
        CliError::usage_with_hint(format!("cannot listen on {address}: {error}"), hint)
    })?;
    print_address(ui, listener.local_addr().map_err(anyhow::Error::from)?, &receiver);
    let app = Router::new().fallback(receive).with_state(Arc::new(receiver));
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    loop {
        tokio::select! {
            Some(delivery) = deliveries.recv() => show(&delivery, ui)?,
            _ = interrupt.recv() => break,
        }
    }
    serving.abort();
    while let Ok(delivery) = deliveries.try_recv() {
        show(&delivery, ui)?;
    }
    Ok(())
}

fn receiver(args: ListenArgs, seen: mpsc::Sender<ReceivedDelivery>) -> CliResult<WebhookReceiver> {
    // Not parsed by clap, because its error would print the secret.
    let secret = args.secret.map(|text| text.parse::<SigningSecret>()).transpose();
    let secret = secret.map_err(|error| CliError::usage(format!("--secret: {error}")))?;
    let status = StatusCode::from_u16(args.status)
        .map_err(|error| CliError::usage(format!("--status: {error}")))?;
    let forward = args.forward.map(forward_client).transpose()?;
    Ok(WebhookReceiver { secret, forward, status, clock: Clock::system(), seen })
}

/// Allows every address, because the user chose it.
fn forward_client(url: String) -> CliResult<(egress::Client, String)> {
    let everywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let networks = everywhere.map(|address| ipnet::IpNet::new(address, 0));
    let policy = Policy::new(networks.into_iter().flatten());
    policy.check_url(&url).map_err(|refused| CliError::usage(format!("--forward: {refused}")))?;
    Ok((egress::Client::new(policy), url))
}

fn print_address(ui: &mut Ui<'_>, address: SocketAddr, receiver: &WebhookReceiver) {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    let url = format!("http://{}/", SocketAddr::new(ip, address.port()));
    if ui.json {
        return ui.json_note(&serde_json::json!({"url": url}));
    }
    let network = ipnet::IpNet::from(ip);
    let checked = match receiver.secret {
        Some(_) => "",
        None => "; signatures are not verified without --secret",
    };
    ui.note(&format!("listening for webhooks on {url} (Ctrl-C to stop{checked})"));
    ui.note(&format!(
        "to let the server reach it, set `[egress] allow = [\"{network}\"]` in its longhaul.toml, or \
         LONGHAUL_EGRESS_ALLOW={network}"
    ));
}

async fn receive(State(receiver): State<Arc<WebhookReceiver>>, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, DELIVERY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let received_at = receiver.clock.now();
    let (signature, signature_error) = match &receiver.secret {
        None => (SignatureCheck::NotChecked, None),
        Some(secret) => {
            match verify(&head.headers, &body, std::slice::from_ref(secret), received_at) {
                Ok(()) => (SignatureCheck::Ok, None),
                Err(doubt) => (SignatureCheck::Wrong, Some(doubt.to_string())),
            }
        }
    };
    let mut delivery = ReceivedDelivery {
        received_at,
        method: head.method.to_string(),
        path: head.uri.to_string(),
        id: head.headers.get(ID).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned()),
        signature,
        signature_error,
        answered: receiver.status.as_u16(),
        forward_ms: None,
        forward_error: None,
        body: serde_json::from_slice(&body).ok(),
    };
    let response = match &receiver.forward {
        None => receiver.status.into_response(),
        Some(to) => forward(to, head.method, &head.headers, body, &mut delivery).await,
    };
    delivery.answered = response.status().as_u16();
    // Fails only while the command ends.
    receiver.seen.send(delivery).await.ok();
    response
}

/// Forwards the body and the webhook headers, and returns the response unchanged.
async fn forward(
    (client, url): &(egress::Client, String),
    method: Method,
    headers: &HeaderMap,
    body: Bytes,
    delivery: &mut ReceivedDelivery,
) -> Response {
    let is_passed_on = |name: &str| name.starts_with("webhook-") || name == CONTENT_TYPE.as_str();
    let fields = headers.iter().filter(|(name, _)| is_passed_on(name.as_str()));
    let headers = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    let (timeout, body_prefix_max) = (FORWARD_TIMEOUT, RESPONSE_BYTES_MAX);
    let outgoing =
        EgressRequest { url: url.clone(), method, headers, body, timeout, body_prefix_max };
    match client.send(outgoing).await {
        Ok(forwarded) => {
            delivery.forward_ms = u64::try_from(forwarded.latency.as_millis()).ok();
            let kept = [CONTENT_TYPE, RETRY_AFTER].into_iter();
            let kept: HeaderMap = kept
                .filter_map(|name| forwarded.headers.get(&name).cloned().map(|value| (name, value)))
                .collect();
            // Removes the type that axum sets for the body.
            let mut response = (forwarded.status, forwarded.body_prefix).into_response();
            response.headers_mut().remove(CONTENT_TYPE);
            response.headers_mut().extend(kept);
            response
        }
        Err(error) => {
            let reason = error.to_string();
            delivery.forward_error = Some(reason.clone());
            (StatusCode::BAD_GATEWAY, format!("longhaul listen: --forward: {reason}\n"))
                .into_response()
        }
    }
}

fn show(delivery: &ReceivedDelivery, ui: &mut Ui<'_>) -> CliResult<()> {
    ui.print(delivery, &delivery.line(ui.out_style))
}

impl ReceivedDelivery {
    /// Returns a text of the body by its path.
    fn text(&self, path: &[&str]) -> Option<&str> {
        path.iter().try_fold(self.body.as_ref()?, |value, name| value.get(name))?.as_str()
    }

    fn line(&self, style: Style) -> String {
        // Requests without an event are shown by method and path.
        let request = format!("{} {}", self.method, self.path);
        let what = self.text(&["type"]).unwrap_or(&request);
        let fields = [self.text(&["data", "jobId"]), self.text(&["data", "status"])];
        let texts = fields.into_iter().flatten().chain(self.id.as_deref());
        let mut parts =
            vec![style.dim(&clock_time(self.received_at)), style.bold(&printable(what))];
        parts.extend(texts.map(|text| printable(text).into_owned()));
        parts.push(match (self.signature, &self.signature_error) {
            (SignatureCheck::Ok, _) => style.paint(Paint::Green, "signature ok"),
            (SignatureCheck::NotChecked, _) => style.dim("signature not verified"),
            (SignatureCheck::Wrong, None) => style.paint(Paint::Red, "signature WRONG"),
            (SignatureCheck::Wrong, Some(why)) => {
                format!("{} ({why})", style.paint(Paint::Red, "signature WRONG"))
            }
        });
        parts.push(match (&self.forward_error, self.forward_ms) {
            (Some(why), _) => {
                let what =
                    format!("responded {}, forwarding failed: {}", self.answered, printable(why));
                style.paint(Paint::Red, &what)
            }
            (None, Some(ms)) => {
                format!("forwarded: {} in {}", self.answered, span(Duration::from_millis(ms)))
            }
            (None, None) => format!("responded {}", self.answered),
        });
        parts.join("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::now;

    fn delivery() -> ReceivedDelivery {
        ReceivedDelivery {
            received_at: now(),
            method: "POST".to_owned(),
            path: "/hook".to_owned(),
            id: Some("msg_1".to_owned()),
            signature: SignatureCheck::Ok,
            signature_error: None,
            answered: 200,
            forward_ms: None,
            forward_error: None,
            body: Some(serde_json::json!({
                "type": "job.completed",
                "data": {"jobId": "01KA3V8J5T0000000000000000", "status": "completed"},
            })),
        }
    }

    #[test]
    fn received_deliveries_are_printed_one_per_line() {
        let wrong = Some("it was not signed with this secret".to_owned());
        let lines = [
            delivery(),
            ReceivedDelivery {
                signature: SignatureCheck::Wrong,
                signature_error: wrong,
                ..delivery()
            },
            ReceivedDelivery {
                signature: SignatureCheck::NotChecked,
                answered: 503,
                forward_ms: Some(12),
                ..delivery()
            },
            ReceivedDelivery {
                answered: 502,
                forward_error: Some("cannot connect: refused".to_owned()),
                ..delivery()
            },
            ReceivedDelivery {
                id: None,
                body: None,
                signature: SignatureCheck::NotChecked,
                ..delivery()
            },
            ReceivedDelivery {
                id: Some("\x1b[2J".to_owned()),
                body: Some(serde_json::json!({"type": "a\x1b]0;b", "data": 7})),
                ..delivery()
            },
        ]
        .map(|delivery| delivery.line(Style::PLAIN));
        insta::assert_snapshot!(lines.join("\n"), @r"
        08:00:09Z  job.completed  01KA3V8J5T0000000000000000  completed  msg_1  signature ok  responded 200
        08:00:09Z  job.completed  01KA3V8J5T0000000000000000  completed  msg_1  signature WRONG (it was not signed with this secret)  responded 200
        08:00:09Z  job.completed  01KA3V8J5T0000000000000000  completed  msg_1  signature not verified  forwarded: 503 in 12ms
        08:00:09Z  job.completed  01KA3V8J5T0000000000000000  completed  msg_1  signature ok  responded 502, forwarding failed: cannot connect: refused
        08:00:09Z  POST /hook  signature not verified  responded 200
        08:00:09Z  a\u001b]0;b  \u001b[2J  signature ok  responded 200
        ");
    }
}
