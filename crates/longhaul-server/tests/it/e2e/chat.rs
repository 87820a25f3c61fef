//! Chats with the real binary: by the clients that models' own servers have, and killed in the middle.

mod clients;
mod docs;
mod killed;
#[cfg(target_os = "linux")]
mod replicas;

use longhaul_kinds::chat::TargetApi;

use crate::harness::FakeChatServer;
use crate::harness::Installation;

/// An installation whose chats go to this target.
fn install(target: &FakeChatServer) -> Installation {
    Installation::with(&config(target))
}

/// The configuration of chats that go to this target.
fn config(target: &FakeChatServer) -> String {
    let api = match target.api() {
        TargetApi::Ollama => "ollama",
        TargetApi::OpenAi => "openai",
    };
    let url = target.url();
    format!(
        "[chat]\ntargets = [{{ name = \"laptop\", url = \"{url}\", api = \"{api}\" }}]\n\
         retry = {{ first = \"10ms\", max = \"100ms\", attempts = 100 }}\n"
    )
}
