//! Logs to stderr: stdout belongs to what commands print.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Why logging did not start.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not one.
    #[error("the log filter is wrong: {0}")]
    Filter(String),
    /// Something in this process logs already.
    #[error("logging was started twice")]
    Twice,
}

/// Starts logging, once per process.
pub fn start(log: &LogConfig) -> Result<(), LogsError> {
    let filter = parse(&log.filter)?;
    let is_terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It reports a line that it cannot write with `eprintln!`, which panics in its turn.
        .log_internal_errors(false);
    let started = if is_json(log.format, is_terminal) {
        // An event's own fields beside its message, where log stores look for them.
        builder.json().flatten_event(true).with_span_list(false).try_init()
    } else {
        builder.with_ansi(is_terminal).try_init()
    };
    started.map_err(|_| LogsError::Twice)
}

/// Whether a text is a filter: a level, or levels per module as in `info,hyper=warn`.
pub fn check_filter(text: &str) -> Result<(), LogsError> {
    parse(text).map(drop)
}

/// Of what the database's client says of itself, only what no input can be in: with more words it repeats
/// every statement's parameters.
const QUIET: [&str; 5] = ["", "::query", "::prepare", "::simple_query", "::connection"];

fn parse(text: &str) -> Result<EnvFilter, LogsError> {
    let wrong = |error: &dyn std::fmt::Display| LogsError::Filter(error.to_string());
    let mut filter = EnvFilter::builder().parse(text).map_err(|error| wrong(&error))?;
    for module in QUIET {
        let directive = format!("tokio_postgres{module}=info").parse();
        filter = filter.add_directive(directive.map_err(|error| wrong(&error))?);
    }
    Ok(filter)
}

fn is_json(format: LogFormat, is_terminal: bool) -> bool {
    match format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Pretty => false,
        LogFormat::Json => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_for_people_only_on_a_terminal() {
        assert!(is_json(LogFormat::Auto, false));
        assert!(!is_json(LogFormat::Auto, true));
        assert!(!is_json(LogFormat::Pretty, false));
        assert!(is_json(LogFormat::Json, true));
    }

    #[test]
    fn filters_are_levels_or_levels_per_module() {
        for good in ["info", "info,longhaul_server::listen=debug"] {
            assert!(check_filter(good).is_ok(), "{good}");
        }
        assert!(check_filter("longhaul=loud").is_err());
    }
}
