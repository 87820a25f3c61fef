//! Output of commands: results to stdout, notes and errors to stderr.

use std::io::{IsTerminal as _, Write};

use longhaul::clock::Clock;
use longhaul::job::Timestamp;
use longhaul_client::wire::RawJson;
use serde::Serialize;

use crate::cli::output::color::{Paint, Style};
use crate::cli::output::pretty_json::pretty;
use crate::cli::output::table::{TableRow, table};
use crate::cli::{CliError, CliResult, Exit};

pub(crate) struct Ui<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    /// `--json`.
    pub(crate) json: bool,
    pub(crate) out_style: Style,
    pub(crate) err_style: Style,
    /// Binary data is not written to a terminal.
    pub(crate) out_is_terminal: bool,
    /// Progress bars are drawn only on a terminal.
    pub(crate) err_is_terminal: bool,
    clock: Clock,
}

impl<'a> Ui<'a> {
    /// Uses the outputs of the process.
    pub(crate) fn terminal(out: &'a mut dyn Write, err: &'a mut dyn Write, json: bool) -> Self {
        let (out_tty, err_tty) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        // no-color.org: set and not empty.
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

    /// Uses the outputs and the clock of a test.
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

    /// Returns whether both outputs are terminals, so that a line may change in place.
    pub(crate) fn live(&self) -> bool {
        self.out_is_terminal && self.err_is_terminal
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Prints a line to stdout.
    pub(crate) fn line(&mut self, text: &str) -> CliResult<()> {
        writeln!(self.out, "{text}")?;
        self.flush()
    }

    /// Prints a value to stdout, as one line of JSON.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> CliResult<()> {
        serde_json::to_writer(&mut self.out, value).map_err(std::io::Error::from)?;
        self.line("")
    }

    /// Prints a line for people, or with `--json` a value.
    pub(crate) fn print(&mut self, value: &impl Serialize, line: &str) -> CliResult<()> {
        if self.json { self.value(value) } else { self.line(line) }
    }

    /// Prints a table for people, or `none` as a note without any rows; with `--json` the whole list.
    pub(crate) fn list<T: TableRow>(
        &mut self,
        list: &impl Serialize,
        rows: &[T],
        none: &str,
    ) -> CliResult<()> {
        if rows.is_empty() && !self.json {
            self.note(none);
            return Ok(());
        }
        self.print(list, &self.table(rows))
    }

    pub(crate) fn table<T: TableRow>(&self, rows: &[T]) -> String {
        table(rows, self.now(), self.out_style)
    }

    /// Writes bytes to stdout.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> CliResult<()> {
        Ok(self.out.write_all(bytes)?)
    }

    pub(crate) fn flush(&mut self) -> CliResult<()> {
        Ok(self.out.flush()?)
    }

    /// Prints JSON of a job: indented for people, unchanged for programs.
    pub(crate) fn document(&mut self, json: &RawJson) -> CliResult<()> {
        let text = self.document_text(json, self.out_style);
        self.line(&text)
    }

    /// Formats JSON as [`Self::document`] prints it.
    pub(crate) fn document_text(&self, json: &RawJson, style: Style) -> String {
        if self.json { json.as_str().to_owned() } else { pretty(json, style) }
    }

    /// Prints a note to stderr, except with `--json`.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.json {
            // A closed stderr is not an error.
            writeln!(self.err, "{text}").ok();
        }
    }

    /// Prints a note of less importance.
    pub(crate) fn dim_note(&mut self, text: &str) {
        self.note(&self.err_style.dim(text));
    }

    /// Prints a value to stderr, as one line of JSON.
    pub(crate) fn json_note(&mut self, value: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(value) {
            writeln!(self.err, "{text}").ok();
        }
    }

    /// Prints an error with its hint to stderr.
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
            format!("{word} {}{}", error, hint.unwrap_or_default())
        };
        writeln!(self.err, "{text}").ok();
        exit
    }
}
