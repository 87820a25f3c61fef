//! Usage as a table of comma-separated values.

use std::fmt::Write as _;

use longhaul_client::wire::UsageRow;

/// Formats rows as CSV with a header (RFC 4180).
pub(super) fn table(rows: &[UsageRow]) -> String {
    let mut table =
        "start,kind,key,jobs,runSeconds,payloadBytes,steps,promptTokens,completionTokens\r\n"
            .to_owned();
    for row in rows {
        let UsageRow { start, kind, key, jobs, run_seconds, payload_bytes, steps, .. } = row;
        let UsageRow { prompt_tokens, completion_tokens, .. } = row;
        let (kind, key) = (field(kind), field(key.as_deref().unwrap_or_default()));
        let tokens = format_args!("{prompt_tokens},{completion_tokens}");
        let numbers = format_args!("{jobs},{run_seconds:.3},{payload_bytes},{steps},{tokens}");
        // Writing to a string cannot fail.
        write!(table, "{start},{kind},{key},{numbers}\r\n").ok();
    }
    table
}

/// Quotes a text so that it stays in its cell, and escapes a text that a spreadsheet would run as a formula.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    let is_plain = !text.contains(['"', ',', '\r', '\n']);
    if is_plain { text } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_or_two() {
        let fields = ["demo", "=1+1", "@x", "-2", "a,b", "say \"hi\"", "=\"a\",b", ""].map(field);
        insta::assert_snapshot!(fields.join(" | "), @r#"demo | '=1+1 | '@x | '-2 | "a,b" | "say ""hi""" | "'=""a"",b" |"#);
    }

    #[test]
    fn table_has_a_header_and_a_line_for_each_row() {
        let row = UsageRow {
            start: "2026-11-15T00:00:00.000Z".into(),
            kind: "demo".to_owned(),
            key: None,
            jobs: 3,
            run_seconds: 1.5,
            payload_bytes: 7,
            steps: 9,
            prompt_tokens: 11,
            completion_tokens: 13,
        };
        let keyed = UsageRow { key: Some("key-1".to_owned()), ..row.clone() };
        insta::assert_snapshot!(table(&[row, keyed]).replace("\r\n", "\n"), @"
        start,kind,key,jobs,runSeconds,payloadBytes,steps,promptTokens,completionTokens
        2026-11-15T00:00:00.000Z,demo,,3,1.500,7,9,11,13
        2026-11-15T00:00:00.000Z,demo,key-1,3,1.500,7,9,11,13
        ");
    }
}
