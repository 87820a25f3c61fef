//! Models of the targets, cached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use longhaul::{Clock, Timestamp};
use serde_json::{Value, json};

use super::client::TargetClient;
use super::error::ChatError;
use super::target::{ModelServer, TargetApi};

const CACHE_LIFETIME: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub(super) name: String,
    /// Entry in the target's API. `None` for configured models.
    entry: Option<Value>,
    api: TargetApi,
}

type Models = Arc<[Model]>;

/// All targets with their models.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) client: TargetClient,
    clock: Clock,
    targets: Vec<CatalogTarget>,
}

#[derive(Debug)]
struct CatalogTarget {
    server: ModelServer,
    /// A std mutex: held for a few field writes, never across an await.
    cached: Mutex<Option<(Timestamp, Models)>>,
}

impl Catalog {
    pub(super) fn new(targets: Vec<ModelServer>, clock: Clock) -> Self {
        let target = |server| CatalogTarget { server, cached: Mutex::new(None) };
        let targets = targets.into_iter().map(target).collect();
        Self { client: TargetClient::default(), clock, targets }
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &ModelServer> {
        self.targets.iter().map(|target| &target.server)
    }

    pub(super) fn server(&self, index: usize) -> Option<&ModelServer> {
        self.targets.get(index).map(|target| &target.server)
    }

    /// Returns the targets that have a model. Queries targets without a fresh list only if no fresh list has the
    /// model.
    pub(super) async fn serving(&self, model: &str) -> Result<Vec<usize>, ChatError> {
        let has = |(target, models): (&CatalogTarget, Option<&Models>)| {
            let is_same = |one: &Model| target.server.is_same_model(&one.name, model);
            models.is_some_and(|models| models.iter().any(is_same))
        };
        let fresh: Vec<Option<Models>> = self.targets.iter().map(|one| self.fresh(one)).collect();
        let serving = indices(self.targets.iter().zip(fresh.iter().map(Option::as_ref)).map(has));
        if !serving.is_empty() {
            return Ok(serving);
        }
        let listed = self.list().await;
        let models = listed.iter().map(|listed| listed.as_ref().ok());
        let serving = indices(self.targets.iter().zip(models).map(has));
        if !serving.is_empty() {
            return Ok(serving);
        }
        // An unreachable target may have it.
        let failure = listed.into_iter().find_map(Result::err);
        Err(failure.unwrap_or_else(|| ChatError::no_model(model)))
    }

    /// Returns the models of each target, from an expired list if it is unreachable.
    async fn list(&self) -> Vec<Result<Models, ChatError>> {
        let lists = self.targets.iter().map(async |target| {
            if let Some(models) = self.fresh(target) {
                return Ok(models);
            }
            match list_models(&self.client, &target.server).await {
                Ok(models) => {
                    *target.cached() = Some((self.clock.now(), Arc::clone(&models)));
                    Ok(models)
                }
                Err(failure) => {
                    target.cached().as_ref().map(|(_, models)| Arc::clone(models)).ok_or(failure)
                }
            }
        });
        join_all(lists).await
    }

    /// Returns configured models or a fresh list.
    fn fresh(&self, target: &CatalogTarget) -> Option<Models> {
        let api = target.server.api;
        if let Some(names) = &target.server.models {
            let model = |name: &String| Model { name: name.clone(), entry: None, api };
            return Some(names.iter().map(model).collect());
        }
        let now = self.clock.now();
        let cached = target.cached();
        let (at, models) = cached.as_ref()?;
        (now < at.after(CACHE_LIFETIME)).then(|| Arc::clone(models))
    }

    /// Returns a model under the name that calls use. In Ollama, a name without a tag means `latest`.
    pub(super) async fn find(&self, name: &str) -> Result<Model, ChatError> {
        let listed = self.list().await;
        let models = || {
            let listed = self.targets.iter().zip(&listed);
            let listed =
                listed.filter_map(|(target, models)| Some((target, models.as_ref().ok()?)));
            listed.flat_map(|(target, models)| models.iter().map(move |model| (target, model)))
        };
        let is_same = |(target, model): &(&CatalogTarget, &Model)| {
            target.server.is_same_model(&model.name, name)
        };
        let exact = models().find(|(_, model)| model.name == name);
        if let Some((_, model)) = exact.or_else(|| models().find(is_same)) {
            return Ok(Model { name: name.to_owned(), ..model.clone() });
        }
        // An unreachable target may have it.
        let failure = listed.into_iter().find_map(Result::err);
        Err(failure.unwrap_or_else(|| ChatError::no_model(name)))
    }

    /// Queries all targets with Ollama's API at once. Targets that do not reply are left out.
    pub(super) async fn query_ollama(&self, path: &str) -> Vec<Value> {
        let ollama = self.servers().filter(|target| target.api == TargetApi::Ollama);
        let replies = join_all(ollama.map(|target| self.client.get(target, path))).await;
        replies.into_iter().filter_map(Result::ok).collect()
    }

    /// Returns all models, each once, sorted by name. Fails if no target is reachable.
    pub(super) async fn all(&self) -> Result<Vec<Model>, ChatError> {
        let listed = self.list().await;
        if let (true, Some(Err(failure))) = (listed.iter().all(Result::is_err), listed.first()) {
            return Err(failure.clone());
        }
        let models = listed.iter().flatten().flat_map(|models| models.iter().cloned());
        let mut all: Vec<Model> = models.collect();
        // The entry of the first target wins.
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all.dedup_by(|later, first| later.name == first.name);
        Ok(all)
    }
}

impl CatalogTarget {
    fn cached(&self) -> MutexGuard<'_, Option<(Timestamp, Models)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the positions of the targets that serve a model.
fn indices(serves: impl Iterator<Item = bool>) -> Vec<usize> {
    serves.enumerate().filter_map(|(index, serves)| serves.then_some(index)).collect()
}

async fn list_models(client: &TargetClient, target: &ModelServer) -> Result<Models, ChatError> {
    let (path, list, name) = match target.api {
        TargetApi::Ollama => ("/api/tags", "models", "name"),
        TargetApi::OpenAi => ("/models", "data", "id"),
    };
    let response = client.get(target, path).await.map_err(|failure| match failure {
        // Retryable, because the call itself may be valid.
        ChatError::Refused { status, message } => target.unreachable(format!(
            "it does not list its models ({status}: {message}); configure `models`"
        )),
        ChatError::Unreachable { .. }
        | ChatError::Unavailable { .. }
        | ChatError::BrokeOff { .. }
        | ChatError::Silent { .. }
        | ChatError::Busy { .. }
        | ChatError::Failed { .. }
        | ChatError::TooLong { .. } => failure,
    })?;
    let Some(items) = response.get(list).and_then(Value::as_array) else {
        let why = format!("it does not list its models at {path}; configure `models`");
        return Err(target.unreachable(why));
    };
    let model = |item: &Value| {
        let name = item.get(name).or_else(|| item.get("model"))?.as_str()?.to_owned();
        Some(Model { name, entry: Some(item.clone()), api: target.api })
    };
    Ok(items.iter().filter_map(model).collect())
}

impl Model {
    /// Format of `/api/tags`.
    pub(super) fn to_ollama(&self) -> Value {
        match (&self.entry, self.api) {
            (Some(entry), TargetApi::Ollama) => entry.clone(),
            (_, TargetApi::Ollama | TargetApi::OpenAi) => json!({
                "name": self.name,
                "model": self.name,
                "modified_at": Timestamp::from_millis(0).to_string(),
                "size": 0,
                "digest": "",
                "details": {"format": "", "family": "", "families": null, "parameter_size": "", "quantization_level": ""},
            }),
        }
    }

    /// Format of `/v1/models`.
    pub(super) fn to_openai(&self) -> Value {
        match (&self.entry, self.api) {
            (Some(entry), TargetApi::OpenAi) => entry.clone(),
            (_, TargetApi::Ollama | TargetApi::OpenAi) => {
                json!({"id": self.name, "object": "model", "created": 0, "owned_by": "library"})
            }
        }
    }
}
