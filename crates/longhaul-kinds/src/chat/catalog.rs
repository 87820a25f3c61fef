//! Models of the targets, cached.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use longhaul::{Clock, Timestamp};
use serde_json::{Value, json};

use super::client::Client;
use super::error::ChatError;
use super::target::{ModelServer, TargetApi};

/// Lifetime of a cached model list.
const CACHE_LIFETIME: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    name: String,
    /// Entry in the target's API. `None` for configured models.
    entry: Option<Value>,
    api: TargetApi,
}

type Models = Arc<[Model]>;

/// Model lists of all targets, in their order.
#[derive(Debug)]
pub(super) struct Catalog {
    clock: Clock,
    /// Std mutexes: held for a few field writes, never across an await.
    known: Vec<Mutex<Option<(Timestamp, Models)>>>,
}

impl Catalog {
    pub(super) fn new(targets: usize, clock: Clock) -> Self {
        Self { clock, known: (0..targets).map(|_| Mutex::new(None)).collect() }
    }

    /// Returns the targets that have a model. Queries targets without a fresh list only if no fresh list has the
    /// model.
    pub(super) async fn serving(
        &self,
        client: &Client,
        targets: &[ModelServer],
        model: &str,
    ) -> Result<Vec<usize>, ChatError> {
        let has = |(index, models): (usize, &Models)| {
            let target = targets.get(index)?;
            models.iter().any(|one| target.is_same_model(&one.name, model)).then_some(index)
        };
        let fresh = |(index, target)| self.fresh(index, target);
        let fresh: Vec<Option<Models>> = targets.iter().enumerate().map(fresh).collect();
        let known =
            fresh.iter().enumerate().filter_map(|(index, models)| Some((index, models.as_ref()?)));
        let serving: Vec<usize> = known.filter_map(has).collect();
        if !serving.is_empty() {
            return Ok(serving);
        }
        let listed = self.list(client, targets).await;
        let known =
            listed.iter().enumerate().filter_map(|(index, one)| Some((index, one.as_ref().ok()?)));
        let serving: Vec<usize> = known.filter_map(has).collect();
        // An unreachable target may have it.
        let unknown = listed.into_iter().find_map(Result::err);
        match (serving.is_empty(), unknown) {
            (false, _) => Ok(serving),
            (true, Some(failure)) => Err(failure),
            (true, None) => Err(ChatError::no_model(model)),
        }
    }

    /// Returns the models of each target, from an expired list if it is unreachable.
    async fn list(
        &self,
        client: &Client,
        targets: &[ModelServer],
    ) -> Vec<Result<Models, ChatError>> {
        let lists = targets.iter().enumerate().map(async |(index, target)| {
            if let Some(models) = self.fresh(index, target) {
                return Ok(models);
            }
            match ask(client, target).await {
                Ok(models) => {
                    self.remember(index, &models);
                    Ok(models)
                }
                Err(failure) => self.stale(index).ok_or(failure),
            }
        });
        join_all(lists).await
    }

    /// Returns configured models or a fresh list.
    fn fresh(&self, index: usize, target: &ModelServer) -> Option<Models> {
        if let Some(names) = &target.models {
            let model = |name: &String| Model { name: name.clone(), entry: None, api: target.api };
            return Some(names.iter().map(model).collect());
        }
        let now = self.clock.now();
        let known = self.known.get(index)?.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, models) = known.as_ref()?;
        (now < at.after(CACHE_LIFETIME)).then(|| Arc::clone(models))
    }

    fn stale(&self, index: usize) -> Option<Models> {
        let known = self.known.get(index)?.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|(_, models)| Arc::clone(models))
    }

    fn remember(&self, index: usize, models: &Models) {
        if let Some(known) = self.known.get(index) {
            let known = &mut *known.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some((self.clock.now(), Arc::clone(models)));
        }
    }

    /// Returns all models, each once, sorted by name. Fails if no target is reachable.
    pub(super) async fn all(
        &self,
        client: &Client,
        targets: &[ModelServer],
    ) -> Result<Vec<Model>, ChatError> {
        let listed = self.list(client, targets).await;
        if listed.iter().all(Result::is_err)
            && let Some(failure) = listed.iter().find_map(|one| one.as_ref().err())
        {
            return Err(failure.clone());
        }
        let models = listed.iter().filter_map(|one| one.as_ref().ok());
        let mut all: Vec<Model> = models.flat_map(|models| models.iter().cloned()).collect();
        // The entry of the first target wins.
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all.dedup_by(|later, first| later.name == first.name);
        Ok(all)
    }
}

async fn ask(client: &Client, target: &ModelServer) -> Result<Models, ChatError> {
    let (path, list, name) = match target.api {
        TargetApi::Ollama => ("/api/tags", "models", "name"),
        TargetApi::OpenAi => ("/models", "data", "id"),
    };
    let answer = client.get(target, path).await.map_err(|failure| unlisted(target, failure))?;
    let Some(items) = answer.get(list).and_then(Value::as_array) else {
        let why = format!("it does not list its models at {path}; configure `models`");
        return Err(ChatError::Unreachable { target: target.name.clone(), why });
    };
    let model = |item: &Value| {
        let name = item.get(name).or_else(|| item.get("model"))?.as_str()?.to_owned();
        Some(Model { name, entry: Some(item.clone()), api: target.api })
    };
    Ok(items.iter().filter_map(model).collect())
}

/// Makes a rejected list retryable, because the call itself may be valid.
fn unlisted(target: &ModelServer, failure: ChatError) -> ChatError {
    match failure {
        ChatError::Refused { status, message } => {
            let why =
                format!("it does not list its models ({status}: {message}); configure `models`");
            ChatError::Unreachable { target: target.name.clone(), why }
        }
        ChatError::Unreachable { .. }
        | ChatError::BrokeOff { .. }
        | ChatError::Silent { .. }
        | ChatError::Busy { .. }
        | ChatError::Failed { .. } => failure,
    }
}

impl Model {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

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
