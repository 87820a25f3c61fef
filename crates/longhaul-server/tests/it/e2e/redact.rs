//! Takes out of a text what differs from run to run.

/// Ids, times and durations become their names; columns lose their widths, which depend on them.
pub(crate) fn redact(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n")
}

fn line(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    // Two spaces part columns, one parts words.
    let columns = line.trim().split("  ").map(str::trim).filter(|column| !column.is_empty());
    format!("{}{}", " ".repeat(indent), columns.map(column).collect::<Vec<_>>().join("  "))
}

fn column(text: &str) -> String {
    let (mut redacted, mut word) = (String::new(), String::new());
    for c in text.chars().chain(['\n']) {
        if c.is_alphanumeric() || ".:-".contains(c) {
            word.push(c);
            continue;
        }
        redacted.push_str(name_of(&word).unwrap_or(&word));
        word.clear();
        redacted.push(c);
    }
    redacted.pop();
    redacted
}

/// Returns the placeholder of a word that differs from run to run.
fn name_of(word: &str) -> Option<&'static str> {
    if is_id(word) {
        Some("[id]")
    } else if is_instant(word) {
        Some("[time]")
    } else if is_duration(word) {
        Some("[duration]")
    } else {
        None
    }
}

fn is_id(word: &str) -> bool {
    word.len() == 26
        && word.starts_with("01")
        && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
}

fn is_instant(word: &str) -> bool {
    word.len() >= 9
        && word.ends_with('Z')
        && word.contains(':')
        && word.starts_with(|c: char| c.is_ascii_digit())
}

fn is_duration(word: &str) -> bool {
    let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &word[number.len()..];
    ["ms", "s", "m", "h", "d"].contains(&unit) && number.parse::<f64>().is_ok()
}

#[test]
fn redaction_replaces_only_ids_times_and_durations() {
    let text = "✓ demo 01KA3V8J5T0000000000000000 completed in 4.2s\n  at 08:00:09Z    /v1/jobs/01KA3V8J5T0000000000000000, 3/3 steps";
    assert_eq!(
        redact(text),
        "✓ demo [id] completed in [duration]\n  at [time]  /v1/jobs/[id], 3/3 steps"
    );
}
