//! HTTP server of a local issuer.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Signer;

/// Serves discovery and keys, and counts key requests.
pub(crate) struct LocalIssuer {
    pub(crate) url: String,
    shared: Arc<Mutex<IssuerState>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct IssuerState {
    url: String,
    keys: Vec<Value>,
    asked: usize,
    behaviour: Behaviour,
}

/// Responses of the local issuer.
#[derive(Debug, Clone, Default)]
pub(crate) enum Behaviour {
    #[default]
    Well,
    /// Responds 500.
    Down,
    /// Claims to be another issuer.
    Impostor,
    /// Responds with more than the size limit.
    Endless,
    /// Redirects key requests.
    Elsewhere(String),
}

impl LocalIssuer {
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared =
            Arc::new(Mutex::new(IssuerState { url: url.clone(), ..IssuerState::default() }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/moved", get(moved))
            .with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        let issuer = Self { url, shared, serving };
        issuer.publish(signers);
        issuer
    }

    pub(crate) fn publish(&self, signers: &[&Signer]) {
        self.publish_raw(signers.iter().map(|signer| signer.jwk()).collect());
    }

    pub(crate) fn publish_raw(&self, keys: Vec<Value>) {
        self.shared.lock().unwrap().keys = keys;
    }

    /// Number of key requests.
    pub(crate) fn key_requests(&self) -> usize {
        self.shared.lock().unwrap().asked
    }

    pub(crate) fn be(&self, behaviour: Behaviour) {
        self.shared.lock().unwrap().behaviour = behaviour;
    }
}

impl Drop for LocalIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn discovery(State(shared): State<Arc<Mutex<IssuerState>>>) -> Response {
    let shared = shared.lock().unwrap();
    let issuer = match shared.behaviour {
        Behaviour::Impostor => "https://other.example",
        Behaviour::Well | Behaviour::Down | Behaviour::Endless | Behaviour::Elsewhere(_) => {
            &shared.url
        }
    };
    let said = json!({"issuer": issuer, "jwks_uri": format!("{}/keys", shared.url)});
    axum::Json(said).into_response()
}

async fn keys(State(shared): State<Arc<Mutex<IssuerState>>>) -> Response {
    let mut shared = shared.lock().unwrap();
    shared.asked += 1;
    match &shared.behaviour {
        Behaviour::Well | Behaviour::Impostor => {
            axum::Json(json!({"keys": shared.keys})).into_response()
        }
        Behaviour::Down => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Behaviour::Endless => " ".repeat((1 << 20) + 1).into_response(),
        Behaviour::Elsewhere(url) => Redirect::temporary(url).into_response(),
    }
}

/// Target of the redirect.
async fn moved(State(shared): State<Arc<Mutex<IssuerState>>>) -> Response {
    axum::Json(json!({"keys": shared.lock().unwrap().keys})).into_response()
}
