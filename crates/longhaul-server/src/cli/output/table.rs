//! Tables without borders, one item per row.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use indicatif::HumanBytes;
use longhaul::job::Timestamp;
use longhaul_client::wire::{
    Artifact, Instant, JobSummary, Kind, Queue, Replica, Status, Step, Stored, StoredRole, Usage,
    UsageBy, UsageTotal,
};

use crate::cli::output::color::{Paint, Style, printable, sign, status_color};
use crate::cli::output::job_details::labels;
use crate::cli::output::job_line::units;
use crate::cli::output::time::{age_of, between, span};

const OUTPUT_CHARS_MAX: usize = 60;

pub(crate) type Header = &'static [&'static str];

/// An item of a table.
pub(crate) trait TableRow {
    const HEADER: Header;

    fn cells(&self, now: Timestamp) -> Vec<Cell>;
}

pub(crate) fn table<T: TableRow>(rows: &[T], now: Timestamp, style: Style) -> String {
    layout(T::HEADER, rows.iter().map(|row| row.cells(now)), style)
}

impl TableRow for JobSummary {
    const HEADER: Header = &["JOB", "KIND", "STATUS", "ATTEMPT", "PROGRESS", "AGE", "LABELS"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.job_id),
            text(&self.kind),
            status_cell(self.status, self.phase.as_deref()),
            Cell::new(format!("{}/{}", self.attempt, self.max_attempts)),
            Cell::new(self.progress.as_ref().map(units).unwrap_or_default()),
            number(age_of(now, &self.created_at)),
            Cell::new(labels(&self.labels)),
        ]
    }
}

impl TableRow for Queue {
    const HEADER: Header = &["QUEUE", "STATE", "PENDING", "RUNNING", "MAX", "RATE", "OLDEST DUE"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let (state, color) =
            if self.paused { ("paused", Color::Yellow) } else { ("open", Color::Green) };
        vec![
            text(&self.name),
            Cell::new(state).fg(color),
            number(self.pending),
            number(self.running),
            limit(self.running_max),
            limit(self.rate.as_deref().map(printable)),
            number(self.oldest_due_at.as_ref().map(|at| age_of(now, at)).unwrap_or_default()),
        ]
    }
}

impl TableRow for Kind {
    const HEADER: Header = &["KIND", "QUEUE", "ATTEMPTS", "TIMEOUT", "CONCURRENCY"];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let timeout = self.timeout.map(|timeout| timeout.to_string());
        vec![
            text(&self.name),
            text(&self.queue),
            number(self.max_attempts),
            Cell::new(timeout.as_deref().unwrap_or("none")),
            limit(self.concurrency),
        ]
    }
}

impl TableRow for Replica {
    const HEADER: Header =
        &["REPLICA", "ROLE", "STATE", "RUNNING", "UP", "SEEN", "PROCESS", "VERSION", "KINDS"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let (state, color) =
            if self.alive { ("alive", Color::Green) } else { ("silent", Color::Red) };
        vec![
            text(&self.name),
            text(&self.role),
            Cell::new(state).fg(color),
            number(format!("{}/{}", self.running, self.concurrency)),
            number(age_of(now, &self.started_at)),
            number(age_of(now, &self.seen_at)),
            Cell::new(
                self.host
                    .as_deref()
                    .zip(self.pid)
                    .map_or_else(String::new, |(host, pid)| format!("{}:{pid}", printable(host))),
            ),
            text(&self.version),
            text(&self.kinds.join(" ")),
        ]
    }
}

impl TableRow for Step {
    const HEADER: Header = &["STEP", "ATTEMPT", "TOOK", "OUTPUT"];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let took = between(&self.started_at, &self.completed_at).map(span);
        let output = printable(self.output.as_str());
        let shown = match output.char_indices().nth(OUTPUT_CHARS_MAX) {
            Some((cut, _)) => format!("{}…", output.get(..cut).unwrap_or_default()),
            None => output.into_owned(),
        };
        let took = number(took.unwrap_or_default());
        vec![text(&self.name), number(self.attempt), took, Cell::new(shown)]
    }
}

impl TableRow for Artifact {
    const HEADER: Header = &["NAME", "TYPE", "SIZE"];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        vec![text(&self.name), text(&self.content_type), number(HumanBytes(self.size))]
    }
}

impl TableRow for Stored {
    const HEADER: Header =
        &["WHAT", "NAME", "SIZE", "STORED", "BY", "KEY DESTROYED", "DELETED", "BY"];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let (role, sealed) = match self.role {
            StoredRole::Payload => ("payload", true),
            StoredRole::Artifact => ("artifact", true),
            StoredRole::Folder => ("folder", false),
        };
        let key =
            if sealed { gone_at(self.key_destroyed_at.as_ref()) } else { Cell::new("no key") };
        let deleted = match (&self.deleted_at, self.failed_deletions) {
            (None, failures @ 1..) => Cell::new(format!("failed {failures} times")).fg(Color::Red),
            (at, _) => gone_at(at.as_ref()),
        };
        vec![
            Cell::new(role),
            text(&self.name),
            number(self.size.map(|size| HumanBytes(size).to_string()).unwrap_or_default()),
            Cell::new(self.stored_at.as_str()),
            text(&self.stored_by),
            key,
            deleted,
            text(self.deleted_by.as_deref().unwrap_or_default()),
        ]
    }
}

fn gone_at(at: Option<&Instant>) -> Cell {
    match at {
        Some(at) => Cell::new(at.as_str()).fg(Color::Green),
        None => Cell::new("not yet").fg(Color::Yellow),
    }
}

/// The last row is the total.
pub(crate) fn usage(usage: &Usage, style: Style) -> String {
    let numbers = |total: &UsageTotal| {
        [
            total.jobs.to_string(),
            format!("{:.3}", total.run_seconds),
            total.payload_bytes.to_string(),
            total.steps.to_string(),
            total.prompt_tokens.to_string(),
            total.completion_tokens.to_string(),
        ]
        .map(number)
    };
    let format_start = |start: &Instant| match usage.by {
        UsageBy::Hour => start.as_str().get(..16).map(|hour| format!("{hour}Z")),
        UsageBy::Day => start.as_str().get(..10).map(ToOwned::to_owned),
        UsageBy::Month => start.as_str().get(..7).map(ToOwned::to_owned),
    };
    let rows = usage.rows.iter().map(|row| {
        let start = format_start(&row.start).unwrap_or_else(|| row.start.to_string());
        let total = UsageTotal {
            jobs: row.jobs,
            run_seconds: row.run_seconds,
            payload_bytes: row.payload_bytes,
            steps: row.steps,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
        };
        let texts = [&start, &row.kind, row.key.as_deref().unwrap_or_default()].map(text);
        texts.into_iter().chain(numbers(&total)).collect()
    });
    let words = ["total", "", ""].map(text);
    let total = words.into_iter().chain(numbers(&usage.total)).collect();
    let header = [
        "START",
        "KIND",
        "KEY",
        "JOBS",
        "RUN SECONDS",
        "PAYLOAD BYTES",
        "STEPS",
        "TOKENS IN",
        "TOKENS OUT",
    ];
    layout(&header, rows.chain([total]), style)
}

fn layout(header: &[&str], rows: impl Iterator<Item = Vec<Cell>>, style: Style) -> String {
    let mut table = Table::new();
    // Rows are never wrapped, so that `grep` works.
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    // Overrides the terminal detection of comfy-table.
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Dim)));
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A cell with text from a server.
pub(crate) fn text(text: &str) -> Cell {
    Cell::new(printable(text))
}

/// A right-aligned cell.
fn number(number: impl std::fmt::Display) -> Cell {
    Cell::new(number).set_alignment(CellAlignment::Right)
}

fn limit(limit: Option<impl std::fmt::Display>) -> Cell {
    limit.map_or_else(|| number("any"), number)
}

fn status_cell(status: Status, phase: Option<&str>) -> Cell {
    let phase = phase.map(|phase| format!(" · {}", printable(phase))).unwrap_or_default();
    let color = match status_color(status) {
        Paint::Red => Color::Red,
        Paint::Green => Color::Green,
        Paint::Yellow => Color::Yellow,
        Paint::Blue => Color::Blue,
        Paint::Cyan => Color::Cyan,
        Paint::Bold | Paint::Dim => Color::Reset,
    };
    Cell::new(format!("{} {status}{phase}", sign(status))).fg(color)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::{completed, failed, now, running, step};

    #[test]
    fn jobs_are_listed_without_borders() {
        let listed = [running(), completed(), failed()].map(JobSummary::from);
        insta::assert_snapshot!(table(&listed, now(), Style::PLAIN), @"
        JOB                         KIND   STATUS               ATTEMPT  PROGRESS  AGE  LABELS
        01KA3V8J5T0000000000000000  graph  ● running · parsing  1/3      120/400    9s  env=prod team=search
        01KA3V8J5T0000000000000000  graph  ✓ completed          1/3                 9s  env=prod team=search
        01KA3V8J5T0000000000000000  graph  ✗ failed             3/3                 9s  env=prod team=search
        ");
    }

    #[test]
    fn queues_show_whether_they_are_paused() {
        let queue = |name: &str, paused| Queue {
            name: name.to_owned(),
            paused,
            pending: 120,
            running: 4,
            oldest_due_at: Some("2026-11-15T07:59:30.000Z".into()),
            running_max: paused.then_some(10),
            rate: paused.then(|| "100/1m".to_owned()),
        };
        let listed = [queue("default", false), queue("slow", true)];
        insta::assert_snapshot!(table(&listed, now(), Style::PLAIN), @"
        QUEUE    STATE   PENDING  RUNNING  MAX  RATE    OLDEST DUE
        default  open        120        4  any     any         39s
        slow     paused      120        4   10  100/1m         39s
        ");
    }

    #[test]
    fn replicas_show_whether_they_live() {
        let replica = |name: &str, alive| Replica {
            name: name.to_owned(),
            role: "worker".to_owned(),
            version: "0.1.0".to_owned(),
            host: Some("host-1".to_owned()),
            pid: Some(4711),
            kinds: vec!["demo".to_owned(), "resize".to_owned()],
            running: 3,
            concurrency: 8,
            started_at: "2026-11-15T07:00:00.000Z".into(),
            seen_at: "2026-11-15T08:00:05.000Z".into(),
            alive,
        };
        let listed = [replica("blue", true), replica("green", false)];
        insta::assert_snapshot!(table(&listed, now(), Style::PLAIN), @"
        REPLICA  ROLE    STATE   RUNNING  UP  SEEN  PROCESS      VERSION  KINDS
        blue     worker  alive       3/8  1h    4s  host-1:4711  0.1.0    demo resize
        green    worker  silent      3/8  1h    4s  host-1:4711  0.1.0    demo resize
        ");
    }

    #[test]
    fn usage_ends_with_its_total() {
        let row = |start: &str, kind: &str, key: Option<&str>| longhaul_client::wire::UsageRow {
            start: start.into(),
            kind: kind.to_owned(),
            key: key.map(ToOwned::to_owned),
            jobs: 120,
            run_seconds: 61.5,
            payload_bytes: 7_340_032,
            steps: 9,
            prompt_tokens: 2_048,
            completion_tokens: 512,
        };
        let total = UsageTotal {
            jobs: 240,
            run_seconds: 123.0,
            payload_bytes: 14_680_064,
            steps: 18,
            prompt_tokens: 4_096,
            completion_tokens: 1_024,
        };
        let rows = vec![
            row("2026-11-14T00:00:00.000Z", "demo", None),
            row("2026-11-15T00:00:00.000Z", "resize", Some("key-1")),
        ];
        let (from, to) = ("2026-11-01T00:00:00.000Z".into(), "2026-11-15T08:00:00.000Z".into());
        let listed = Usage { from, to, by: UsageBy::Day, rows, total };
        insta::assert_snapshot!(usage(&listed, Style::PLAIN), @"
        START       KIND    KEY    JOBS  RUN SECONDS  PAYLOAD BYTES  STEPS  TOKENS IN  TOKENS OUT
        2026-11-14  demo            120       61.500        7340032      9       2048         512
        2026-11-15  resize  key-1   120       61.500        7340032      9       2048         512
        total                       240      123.000       14680064     18       4096        1024
        ");
    }

    #[test]
    fn kinds_show_their_defaults() {
        let kind = Kind {
            name: "demo".to_owned(),
            queue: "default".to_owned(),
            max_attempts: 3,
            timeout: "1h".parse().ok(),
            concurrency: None,
        };
        insta::assert_snapshot!(table(&[kind], now(), Style::PLAIN), @"
        KIND  QUEUE    ATTEMPTS  TIMEOUT  CONCURRENCY
        demo  default         3  1h               any
        ");
    }

    #[test]
    fn steps_show_what_they_returned_in_part() {
        let listed =
            [step("extract", r#"{"pages":3}"#), step("index", &format!("[{}0]", "1,".repeat(50)))];
        insta::assert_snapshot!(table(&listed, now(), Style::PLAIN), @r#"
        STEP     ATTEMPT  TOOK  OUTPUT
        extract        1  1.5s  {"pages":3}
        index          1  1.5s  [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1…
        "#);
    }
}
