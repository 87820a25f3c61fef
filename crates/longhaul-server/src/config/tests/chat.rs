//! `[chat]`

use super::*;
use longhaul_kinds::chat::TargetApi;

const LAPTOP: &str =
    "[chat]\ntargets = [{ name = 'laptop', url = 'http://127.0.0.1:11434', api = 'ollama' }]\n";

#[test]
fn chat_targets_have_defaults_and_options() {
    let chat = ConfigInput::file(LAPTOP).config().chat.unwrap();
    let laptop = ChatTarget {
        name: Name::new("laptop").unwrap(),
        url: "http://127.0.0.1:11434".to_owned(),
        api: TargetApi::Ollama,
        models: None,
        concurrency: 1,
        api_key: None,
    };
    let retry = Retry { max_attempts: 10, first: SECOND, max: 60 * SECOND };
    assert_eq!(
        chat,
        ChatConfig {
            targets: vec![laptop.clone()],
            webhook_secret: None,
            retry,
            body_bytes_max: 32 << 20,
            unreachable_wait: 120 * SECOND,
            cancel_disconnected: true,
        }
    );
    let input = ConfigInput::file(
        "[chat]\nwebhook_secret = 'hush'\nretry = { attempts = 3 }\ntargets = [{ name = 'cloud', \
         url = 'https://api.example/v1', api = 'openai', models = ['a', 'b'], concurrency = 9, api_key = '${CLOUD_KEY}' }]\n",
    )
    .env("CLOUD_KEY", "sk-1");
    let chat = input.config().chat.unwrap();
    assert_eq!(chat.webhook_secret, Secret::new("hush"));
    assert_eq!(chat.retry, Retry { max_attempts: 3, ..retry });
    let cloud = &chat.targets[0];
    assert_eq!(cloud.api_key, Secret::new("sk-1"));
    assert_eq!(cloud.models, Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!((cloud.concurrency, cloud.api), (9, TargetApi::OpenAi));
}

#[test]
fn chat_errors_are_reported_at_once_without_keys() {
    let input = ConfigInput::file(
        "[chat]\n\
         retry = { first = '2m', max = '1m', attemps = 3 }\n\
         targets = [\n\
         { name = 'a', url = 'http://x', api = 'olama' },\n\
         { name = 'b b', url = 'ftp://x', api = 'openai' },\n\
         { name = 'c', url = 'http://me:pw@x', api = 'openai', concurrency_max = 2 },\n\
         { name = 'd', api = 'openai', api_key = 'sk secret' },\n\
         { name = 'e', url = 'http://x', api = 'openai', api_key = '${NOT_THERE}', models = [] },\n\
         { name = 'f', url = 'http://x', api = 'ollama' },\n\
         { name = 'f', url = 'http://x', api = 'ollama', concurrency = 0 },\n\
         { name = 'f', url = 'http://x', api = 'ollama' },\n\
         'laptop',\n\
         ]\n",
    );
    let errors = input.errors();
    assert!(!errors.contains("sk secret") && !errors.contains("pw@"), "{errors}");
    insta::assert_snapshot!(errors);
}

#[test]
fn kind_named_chat_is_allowed_without_chat_targets() {
    let kind = "[kinds.chat]\ncommand = ['x']\n";
    assert_eq!(ConfigInput::file(kind).config().kinds.len(), 1);
    let errors = ConfigInput::file(&format!("{LAPTOP}{kind}")).errors();
    assert!(errors.contains("the built-in kind has this name"), "{errors}");
}
