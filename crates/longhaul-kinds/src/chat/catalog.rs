//! Which models there are, and where.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use longhaul::{Clock, Timestamp};
use serde_json::{Value, json};

use super::client::Client;
use super::error::ChatError;
use super::target::{ModelServer, TargetApi};

/// How long it is remembered which models a target has.
const REMEMBERED: Duration = Duration::from_mins(1);

/// A model, as its target lists it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    name: String,
    /// In the target's API; nothing if the configuration names it.
    entry: Option<Value>,
    api: TargetApi,
}

type Models = Arc<[Model]>;

/// What is known of the models of all targets, in their order.
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

    /// The targets that have a model. Those are asked of which nothing is known, or nothing new, if none that is
    /// known well has it.
    pub(super) async fn serving(
        &self,
        client: &Client,
        targets: &[ModelServer],
        model: &str,
    ) -> Result<Vec<usize>, ChatError> {
        let has = |(place, models): (usize, &Models)| {
            let target = targets.get(place)?;
            models.iter().any(|one| target.is_called(&one.name, model)).then_some(place)
        };
        let fresh = |(place, target)| self.fresh(place, target);
        let fresh: Vec<Option<Models>> = targets.iter().enumerate().map(fresh).collect();
        let known =
            fresh.iter().enumerate().filter_map(|(place, models)| Some((place, models.as_ref()?)));
        let serving: Vec<usize> = known.filter_map(has).collect();
        if !serving.is_empty() {
            return Ok(serving);
        }
        let listed = self.list(client, targets).await;
        let known =
            listed.iter().enumerate().filter_map(|(place, one)| Some((place, one.as_ref().ok()?)));
        let serving: Vec<usize> = known.filter_map(has).collect();
        // One that could not be asked may have it.
        let unknown = listed.into_iter().find_map(Result::err);
        match (serving.is_empty(), unknown) {
            (false, _) => Ok(serving),
            (true, Some(failure)) => Err(failure),
            (true, None) => Err(ChatError::no_model(model)),
        }
    }

    /// The models of each target. Of one that does not answer, those that it had.
    async fn list(
        &self,
        client: &Client,
        targets: &[ModelServer],
    ) -> Vec<Result<Models, ChatError>> {
        let asked = targets.iter().enumerate().map(async |(place, target)| {
            if let Some(models) = self.fresh(place, target) {
                return Ok(models);
            }
            match ask(client, target).await {
                Ok(models) => {
                    self.remember(place, &models);
                    Ok(models)
                }
                Err(failure) => self.stale(place).ok_or(failure),
            }
        });
        join_all(asked).await
    }

    /// What is configured, or was told a moment ago.
    fn fresh(&self, place: usize, target: &ModelServer) -> Option<Models> {
        if let Some(names) = &target.models {
            let model = |name: &String| Model { name: name.clone(), entry: None, api: target.api };
            return Some(names.iter().map(model).collect());
        }
        let now = self.clock.now();
        let known = self.known.get(place)?.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, models) = known.as_ref()?;
        (now < at.after(REMEMBERED)).then(|| Arc::clone(models))
    }

    fn stale(&self, place: usize) -> Option<Models> {
        let known = self.known.get(place)?.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|(_, models)| Arc::clone(models))
    }

    fn remember(&self, place: usize, models: &Models) {
        if let Some(known) = self.known.get(place) {
            let known = &mut *known.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some((self.clock.now(), Arc::clone(models)));
        }
    }

    /// All models, each once, by name. An error if nobody could be asked.
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
        // Of several targets that have it, the first one's word stands.
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
        let why = format!("it does not tell its models at {path}; name them in the configuration");
        return Err(ChatError::Unreachable { target: target.name.clone(), why });
    };
    let model = |item: &Value| {
        let name = item.get(name).or_else(|| item.get("model"))?.as_str()?.to_owned();
        Some(Model { name, entry: Some(item.clone()), api: target.api })
    };
    Ok(items.iter().filter_map(model).collect())
}

/// A target that refuses to tell its models is no reason to refuse a call.
fn unlisted(target: &ModelServer, failure: ChatError) -> ChatError {
    match failure {
        ChatError::Refused { status, message } => {
            let why = format!(
                "it does not tell its models ({status}: {message}); name them in the configuration"
            );
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

    /// As `/api/tags` has it.
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

    /// As `/v1/models` has it.
    pub(super) fn to_openai(&self) -> Value {
        match (&self.entry, self.api) {
            (Some(entry), TargetApi::OpenAi) => entry.clone(),
            (_, TargetApi::Ollama | TargetApi::OpenAi) => {
                json!({"id": self.name, "object": "model", "created": 0, "owned_by": "library"})
            }
        }
    }
}
