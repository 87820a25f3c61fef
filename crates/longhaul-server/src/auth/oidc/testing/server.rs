//! An issuer behind a socket.

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

/// Publishes keys, and counts how often it was asked for them.
pub(crate) struct LocalIssuer {
    pub(crate) url: String,
    shared: Arc<Mutex<Shared>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    url: String,
    keys: Vec<Value>,
    asked: usize,
    mood: Mood,
}

/// How it answers.
#[derive(Debug, Clone, Default)]
pub(crate) enum Mood {
    /// As it should.
    #[default]
    Well,
    /// With 500.
    Down,
    /// As another issuer.
    Impostor,
    /// With more than anybody reads.
    Endless,
    /// With a redirect of the request for keys.
    Elsewhere(String),
}

impl LocalIssuer {
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Mutex::new(Shared { url: url.clone(), ..Shared::default() }));
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

    /// How often it was asked for its keys.
    pub(crate) fn asked(&self) -> usize {
        self.shared.lock().unwrap().asked
    }

    pub(crate) fn be(&self, mood: Mood) {
        self.shared.lock().unwrap().mood = mood;
    }
}

impl Drop for LocalIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn discovery(State(shared): State<Arc<Mutex<Shared>>>) -> Response {
    let shared = shared.lock().unwrap();
    let issuer = match shared.mood {
        Mood::Impostor => "https://other.example",
        Mood::Well | Mood::Down | Mood::Endless | Mood::Elsewhere(_) => &shared.url,
    };
    let said = json!({"issuer": issuer, "jwks_uri": format!("{}/keys", shared.url)});
    axum::Json(said).into_response()
}

async fn keys(State(shared): State<Arc<Mutex<Shared>>>) -> Response {
    let mut shared = shared.lock().unwrap();
    shared.asked += 1;
    match &shared.mood {
        Mood::Well | Mood::Impostor => axum::Json(json!({"keys": shared.keys})).into_response(),
        Mood::Down => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Endless => " ".repeat((1 << 20) + 1).into_response(),
        Mood::Elsewhere(url) => Redirect::temporary(url).into_response(),
    }
}

/// Where the keys are after a move.
async fn moved(State(shared): State<Arc<Mutex<Shared>>>) -> Response {
    axum::Json(json!({"keys": shared.lock().unwrap().keys})).into_response()
}
