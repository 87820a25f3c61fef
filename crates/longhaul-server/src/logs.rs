//! Logs to stderr, because stdout is for the output of commands.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Error of the start of logging.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error("invalid log filter: {0}")]
    Filter(String),
    #[error("logging is already started")]
    Twice,
}

/// Starts logging, once per process.
pub fn start(log: &LogConfig) -> Result<(), LogsError> {
    let filter = parse(&log.filter)?;
    let is_terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Reporting uses `eprintln!`, which panics if stderr is closed.
        .log_internal_errors(false);
    let started = if is_json(log.format, is_terminal) {
        // Fields beside the message, where log stores expect them.
        builder.json().flatten_event(true).with_span_list(false).try_init()
    } else {
        builder.with_ansi(is_terminal).try_init()
    };
    started.map_err(|_| LogsError::Twice)
}

/// Checks a filter: a level, or levels per module, for example `info,hyper=warn`.
pub fn check_filter(text: &str) -> Result<(), LogsError> {
    parse(text).map(drop)
}

/// Modules of the Postgres client that log at most at info, because below it they log the parameters of
/// statements.
const QUIET_MODULES: [&str; 5] = ["", "::query", "::prepare", "::simple_query", "::connection"];

fn parse(text: &str) -> Result<EnvFilter, LogsError> {
    let wrong = |error: &dyn std::fmt::Display| LogsError::Filter(error.to_string());
    let mut filter = EnvFilter::builder().parse(text).map_err(|error| wrong(&error))?;
    for module in QUIET_MODULES {
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
    fn auto_log_format_is_pretty_only_on_a_terminal() {
        assert!(is_json(LogFormat::Auto, false));
        assert!(!is_json(LogFormat::Auto, true));
        assert!(!is_json(LogFormat::Pretty, false));
        assert!(is_json(LogFormat::Json, true));
    }

    #[test]
    fn log_filters_are_levels_or_levels_per_module() {
        for good in ["info", "info,longhaul_server::listen=debug"] {
            assert!(check_filter(good).is_ok(), "{good}");
        }
        assert!(check_filter("longhaul=loud").is_err());
    }
}
