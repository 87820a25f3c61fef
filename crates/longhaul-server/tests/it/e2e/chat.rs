//! Chats with the real binary: by the clients that models' own servers have, and killed in the middle.

mod clients;
mod docs;
mod killed;

use longhaul_kinds::chat::TargetApi;

use super::home::Home;
use crate::chat::target::FakeTarget;

/// A home whose chats go to this target.
fn home(target: &FakeTarget) -> Home {
    let api = match target.api() {
        TargetApi::Ollama => "ollama",
        TargetApi::OpenAi => "openai",
    };
    let url = target.url();
    Home::with(&format!(
        "[chat]\ntargets = [{{ name = \"laptop\", url = \"{url}\", api = \"{api}\" }}]\n\
         retry = {{ first = \"10ms\", max = \"100ms\", attempts = 100 }}\n"
    ))
}
