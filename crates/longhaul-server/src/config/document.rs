//! Generates the default configuration file and the reference page from the settings table.

use std::fmt::Write as _;

use super::layers::variable;
use super::schema::SettingsSection;
use super::settings::sections;

const HEADER: &str = "\
# All settings of `longhaul serve` with their defaults. Generated from crates/longhaul-server/src/config/settings.rs
# and compiled in; a longhaul.toml needs only the values that differ.
#
# Later sources override earlier ones: this file, longhaul.toml (or --config FILE), the environment, flags.
# Environment names follow from the keys: `lease.duration` is LONGHAUL_LEASE_DURATION.
# `longhaul doctor` prints every value and its origin.
#
# Durations are whole numbers with units, the largest first: \"500ms\", \"15s\", \"1h30m\", \"7d\".
# Sizes are a whole number with B, KB, MB, GB (powers of 1000) or KiB, MiB, GiB (of 1024).
";

/// Declarations of kinds, proxies and queues, as comments.
const EXAMPLES: &str = include_str!("examples.toml");

/// Returns the text of `config.default.toml`.
pub(super) fn default_file() -> String {
    let mut text = HEADER.to_owned();
    for SettingsSection { name, settings } in sections() {
        if !name.is_empty() {
            text.extend(["\n[", name, "]\n"]);
        }
        for setting in settings {
            if name.is_empty() {
                text.push('\n');
            }
            for line in setting.docs {
                text.extend(["#", line, "\n"]);
            }
            let (_, field) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
            text.extend([field, " = ", setting.default, "\n"]);
        }
    }
    text + "\n" + EXAMPLES
}

/// Returns the text of `docs/configuration.md`.
pub fn reference_page() -> String {
    let mut text = "\
# Configuration

<!-- Generated from crates/longhaul-server/src/config/settings.rs; a test compares this page with it. -->

`longhaul serve` needs no configuration. It reads, later sources first: flags, environment variables, `longhaul.toml`
in the working directory (or `--config FILE`), defaults. `longhaul doctor` prints every value and its origin.

Durations are whole numbers with units, the largest first: `500ms`, `15s`, `1h30m`, `7d`. Sizes are a whole number
with `B`, `KB`, `MB`, `GB` (powers of 1000) or `KiB`, `MiB`, `GiB` (of 1024).
"
    .to_owned();
    for SettingsSection { name, settings } in sections() {
        match name {
            "" => text.push_str("\n## Top level\n"),
            name => text.extend(["\n## [", name, "]\n"]),
        }
        for setting in settings {
            let docs: Vec<&str> = setting.docs.iter().map(|line| line.trim()).collect();
            let docs = docs.join(" ").replace('<', "&lt;");
            write!(
                text,
                "\n### `{}`\n\n{docs}\n\n- Default: `{}`\n- Values: {}\n- Environment: `{}`\n",
                setting.key,
                setting.default,
                setting.expected,
                variable(setting.key),
            )
            .ok();
        }
    }
    text + "\n## Kinds, proxies and queues\n\n```toml\n" + EXAMPLES + "```\n"
}
