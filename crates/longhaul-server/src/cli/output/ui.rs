//! Where output goes: results to stdout, everything said about them to stderr.

use std::io::{IsTerminal as _, Write};

use longhaul::clock::Clock;
use longhaul::job::Timestamp;
use longhaul_client::wire::RawJson;
use serde::Serialize;

use crate::cli::output::color::{Paint, Style};
use crate::cli::output::pretty_json::pretty;
use crate::cli::{CliError, Exit};

/// The two outputs of a command and how to write to them.
pub(crate) struct Ui<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    /// Whether programs read the output.
    pub(crate) json: bool,
    /// How to paint stdout.
    pub(crate) out_style: Style,
    /// How to paint stderr.
    pub(crate) err_style: Style,
    /// Whether stdout is a terminal, on which bytes of any kind have no place.
    pub(crate) out_is_terminal: bool,
    /// Whether a person looks at stderr, so that a bar may grow there.
    pub(crate) err_is_terminal: bool,
    clock: Clock,
}

impl<'a> Ui<'a> {
    /// The process's own outputs.
    pub(crate) fn terminal(out: &'a mut dyn Write, err: &'a mut dyn Write, json: bool) -> Self {
        let (out_tty, err_tty) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        // no-color.org: set and not empty. Not configuration of ours, so not read by clap.
        let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            out,
            err,
            json,
            out_style: Style { color: color && out_tty && !json },
            err_style: Style { color: color && err_tty && !json },
            out_is_terminal: out_tty,
            err_is_terminal: err_tty && !json,
            clock: Clock::system(),
        }
    }

    /// Outputs that a test reads, at a time that a test sets.
    #[cfg(test)]
    pub(crate) fn captured(
        out: &'a mut dyn Write,
        err: &'a mut dyn Write,
        json: bool,
        clock: Clock,
    ) -> Self {
        Self {
            out,
            err,
            json,
            out_style: Style::PLAIN,
            err_style: Style::PLAIN,
            out_is_terminal: false,
            err_is_terminal: false,
            clock,
        }
    }

    /// Whether a person looks at both outputs, so that a line may change in place.
    pub(crate) fn live(&self) -> bool {
        self.out_is_terminal && self.err_is_terminal
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A line of what was asked for.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), CliError> {
        writeln!(self.out, "{text}")?;
        self.flush()
    }

    /// A value of what was asked for, as one line of JSON.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.out, value).map_err(std::io::Error::from)?;
        self.line("")
    }

    /// Bytes of what was asked for, as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Lets nothing of what was asked for wait in a buffer.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.out.flush()?)
    }

    /// JSON of a job: readable for people, as it came for programs.
    pub(crate) fn document(&mut self, json: &RawJson) -> Result<(), CliError> {
        let text = self.document_text(json, self.out_style);
        self.line(&text)
    }

    /// What [`Self::document`] prints.
    pub(crate) fn document_text(&self, json: &RawJson, style: Style) -> String {
        if self.json { json.as_str().to_owned() } else { pretty(json, style) }
    }

    /// A remark for people; programs are not told.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.json {
            // Who closed stderr does not want to hear that it is closed.
            writeln!(self.err, "{text}").ok();
        }
    }

    /// A remark for programs, as one line of JSON.
    pub(crate) fn json_note(&mut self, value: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(value) {
            writeln!(self.err, "{text}").ok();
        }
    }

    /// Says what went wrong and what to do next.
    pub(crate) fn report(&mut self, error: &CliError) -> Exit {
        let exit = error.exit();
        if exit == Exit::Done {
            return exit;
        }
        let text = if self.json {
            error.to_json().to_string()
        } else {
            let word = self.err_style.paint(Paint::Red, "error:");
            let hint =
                error.hint().map(|hint| format!("\n{} {hint}", self.err_style.dim(" hint:")));
            format!("{word} {}{}", error.message(), hint.unwrap_or_default())
        };
        writeln!(self.err, "{text}").ok();
        exit
    }
}
