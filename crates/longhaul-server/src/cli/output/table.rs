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
use crate::cli::output::time::{age_of, between, span};

const OUTPUT_CHARS_MAX: usize = 60;

pub(crate) fn jobs(jobs: &[JobSummary], now: Timestamp, style: Style) -> String {
    let header = ["JOB", "KIND", "STATUS", "ATTEMPT", "PROGRESS", "AGE", "LABELS"];
    let rows = jobs.iter().map(|job| {
        vec![
            Cell::new(&job.job_id),
            Cell::new(printable(&job.kind)),
            status_cell(job.status, job.phase.as_deref()),
            Cell::new(format!("{}/{}", job.attempt, job.max_attempts)),
            Cell::new(progress_text(job)),
            Cell::new(age_of(now, &job.created_at)).set_alignment(CellAlignment::Right),
            Cell::new(labels(&job.labels)),
        ]
    });
    layout(&header, rows, style)
}

pub(crate) fn queues(queues: &[Queue], now: Timestamp, style: Style) -> String {
    let rows = queues.iter().map(|queue| {
        let state = if queue.paused {
            Cell::new("paused").fg(Color::Yellow)
        } else {
            Cell::new("open").fg(Color::Green)
        };
        let oldest = queue.oldest_due_at.as_ref().map(|at| age_of(now, at));
        let max = queue.running_max.map_or_else(|| "any".to_owned(), |max| max.to_string());
        vec![
            Cell::new(printable(&queue.name)),
            state,
            number(queue.pending),
            number(queue.running),
            Cell::new(max).set_alignment(CellAlignment::Right),
            Cell::new(queue.rate.as_deref().map_or_else(|| "any".into(), printable))
                .set_alignment(CellAlignment::Right),
            Cell::new(oldest.unwrap_or_default()).set_alignment(CellAlignment::Right),
        ]
    });
    layout(&["QUEUE", "STATE", "PENDING", "RUNNING", "MAX", "RATE", "OLDEST DUE"], rows, style)
}

pub(crate) fn kinds(kinds: &[Kind], style: Style) -> String {
    let rows = kinds.iter().map(|kind| {
        vec![
            Cell::new(printable(&kind.name)),
            Cell::new(printable(&kind.queue)),
            number(kind.max_attempts),
            Cell::new(
                kind.timeout.map_or_else(|| "none".to_owned(), |timeout| timeout.to_string()),
            ),
            Cell::new(kind.concurrency.map_or_else(|| "any".to_owned(), |count| count.to_string()))
                .set_alignment(CellAlignment::Right),
        ]
    });
    layout(&["KIND", "QUEUE", "ATTEMPTS", "TIMEOUT", "CONCURRENCY"], rows, style)
}

pub(crate) fn replicas(replicas: &[Replica], now: Timestamp, style: Style) -> String {
    let rows = replicas.iter().map(|replica| {
        let state = if replica.alive {
            Cell::new("alive").fg(Color::Green)
        } else {
            Cell::new("silent").fg(Color::Red)
        };
        let age = |at| Cell::new(age_of(now, at)).set_alignment(CellAlignment::Right);
        vec![
            Cell::new(printable(&replica.name)),
            Cell::new(printable(&replica.role)),
            state,
            Cell::new(format!("{}/{}", replica.running, replica.concurrency))
                .set_alignment(CellAlignment::Right),
            age(&replica.started_at),
            age(&replica.seen_at),
            Cell::new(format!("{}:{}", printable(&replica.host), replica.pid)),
            Cell::new(printable(&replica.version)),
            Cell::new(printable(&replica.kinds.join(" "))),
        ]
    });
    let header =
        ["REPLICA", "ROLE", "STATE", "RUNNING", "UP", "SEEN", "PROCESS", "VERSION", "KINDS"];
    layout(&header, rows, style)
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
        let key = row.key.as_deref().map(printable).unwrap_or_default();
        let total = UsageTotal {
            jobs: row.jobs,
            run_seconds: row.run_seconds,
            payload_bytes: row.payload_bytes,
            steps: row.steps,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
        };
        let texts = [Cell::new(printable(&start)), Cell::new(printable(&row.kind)), Cell::new(key)];
        texts.into_iter().chain(numbers(&total)).collect()
    });
    let words = ["total", "", ""].map(Cell::new);
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

pub(crate) fn steps(steps: &[Step], style: Style) -> String {
    let rows = steps.iter().map(|step| {
        let took = between(&step.started_at, &step.completed_at).map(span);
        let output = printable(step.output.as_str()).into_owned();
        let shown = match output.char_indices().nth(OUTPUT_CHARS_MAX) {
            Some((cut, _)) => format!("{}…", output.get(..cut).unwrap_or_default()),
            None => output,
        };
        vec![
            Cell::new(printable(&step.name)),
            number(step.attempt),
            Cell::new(took.unwrap_or_default()).set_alignment(CellAlignment::Right),
            Cell::new(shown),
        ]
    });
    layout(&["STEP", "ATTEMPT", "TOOK", "OUTPUT"], rows, style)
}

pub(crate) fn artifacts(artifacts: &[Artifact], style: Style) -> String {
    let rows = artifacts.iter().map(|artifact| {
        vec![
            Cell::new(printable(&artifact.name)),
            Cell::new(printable(&artifact.content_type)),
            number(HumanBytes(artifact.size)),
        ]
    });
    layout(&["NAME", "TYPE", "SIZE"], rows, style)
}

pub(crate) fn stored(stored: &[Stored], style: Style) -> String {
    let rows = stored.iter().map(|one| {
        let (role, sealed) = match one.role {
            StoredRole::Payload => ("payload", true),
            StoredRole::Artifact => ("artifact", true),
            StoredRole::Folder => ("folder", false),
        };
        let size = one.size.map(|size| HumanBytes(size).to_string()).unwrap_or_default();
        let key = if sealed { gone_at(one.key_destroyed_at.as_ref()) } else { Cell::new("no key") };
        let deleted = match (&one.deleted_at, one.failed_deletions) {
            (None, 1..) => {
                Cell::new(format!("failed {} times", one.failed_deletions)).fg(Color::Red)
            }
            (at, _) => gone_at(at.as_ref()),
        };
        vec![
            Cell::new(role),
            Cell::new(printable(&one.name)),
            number(size),
            Cell::new(one.stored_at.as_str()),
            Cell::new(printable(&one.stored_by)),
            key,
            deleted,
            Cell::new(one.deleted_by.as_deref().map(printable).unwrap_or_default()),
        ]
    });
    let header = ["WHAT", "NAME", "SIZE", "STORED", "BY", "KEY DESTROYED", "DELETED", "BY"];
    layout(&header, rows, style)
}

fn gone_at(at: Option<&Instant>) -> Cell {
    match at {
        Some(at) => Cell::new(at.as_str()).fg(Color::Green),
        None => Cell::new("not yet").fg(Color::Yellow),
    }
}

pub(crate) fn layout(
    header: &[&str],
    rows: impl Iterator<Item = Vec<Cell>>,
    style: Style,
) -> String {
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

fn number(count: impl std::fmt::Display) -> Cell {
    Cell::new(count).set_alignment(CellAlignment::Right)
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

fn progress_text(job: &JobSummary) -> String {
    match &job.progress {
        None => String::new(),
        Some(progress) => match progress.total {
            Some(total) => format!("{}/{total}", progress.done),
            None => progress.done.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::{completed, failed, now, running, step};

    #[test]
    fn jobs_are_listed_without_borders() {
        let listed = [running(), completed(), failed()].map(JobSummary::from);
        insta::assert_snapshot!(jobs(&listed, now(), Style::PLAIN), @"
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
        insta::assert_snapshot!(queues(&listed, now(), Style::PLAIN), @"
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
            host: "host-1".to_owned(),
            pid: 4711,
            kinds: vec!["demo".to_owned(), "resize".to_owned()],
            running: 3,
            concurrency: 8,
            started_at: "2026-11-15T07:00:00.000Z".into(),
            seen_at: "2026-11-15T08:00:05.000Z".into(),
            alive,
        };
        let listed = [replica("blue", true), replica("green", false)];
        insta::assert_snapshot!(replicas(&listed, now(), Style::PLAIN), @"
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
        insta::assert_snapshot!(kinds(&[kind], Style::PLAIN), @"
        KIND  QUEUE    ATTEMPTS  TIMEOUT  CONCURRENCY
        demo  default         3  1h               any
        ");
    }

    #[test]
    fn steps_show_what_they_returned_in_part() {
        let listed =
            [step("extract", r#"{"pages":3}"#), step("index", &format!("[{}0]", "1,".repeat(50)))];
        insta::assert_snapshot!(steps(&listed, Style::PLAIN), @r#"
        STEP     ATTEMPT  TOOK  OUTPUT
        extract        1  1.5s  {"pages":3}
        index          1  1.5s  [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1…
        "#);
    }
}
