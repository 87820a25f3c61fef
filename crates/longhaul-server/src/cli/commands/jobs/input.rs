//! Input of a job: inline JSON, a file, or stdin.

use longhaul_client::wire::RawJson;

use crate::cli::{CliError, CliResult};

/// Characters of a malformed line before and after the error.
const CONTEXT_CHARS: usize = 30;

/// Reads `INPUT_JSON`, `@FILE` or `-`. Defaults to `{}`.
pub(crate) fn read(argument: Option<&str>) -> CliResult<RawJson> {
    let argument = argument.unwrap_or("{}");
    let (source, text) = match argument.strip_prefix('@') {
        None if argument != "-" => return check("the input", argument),
        None => ("stdin", std::io::read_to_string(std::io::stdin())),
        Some(path) => (path, std::fs::read_to_string(path)),
    };
    let text = text.map_err(|error| CliError::usage(format!("cannot read {source}: {error}")))?;
    check(source, &text)
}

fn check(source: &str, text: &str) -> CliResult<RawJson> {
    if text.trim().is_empty() {
        let message = format!("{source} is empty, which is not JSON");
        return Err(CliError::usage_with_hint(message, "omit it for {}, or write null"));
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let excerpt = excerpt(text, error.line(), error.column());
        let message = format!("{source} is not valid JSON: {error}\n{excerpt}");
        let hint = r#"quote JSON for the shell, for example '{"steps": 3}'"#;
        return Err(CliError::usage_with_hint(message, hint));
    }
    RawJson::from_text(text.trim())
        .map_err(|error| CliError::usage(format!("{source} is not valid JSON: {error}")))
}

/// Returns the line with a mark below the error. Columns count bytes, from 1.
fn excerpt(text: &str, line: usize, column: usize) -> String {
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let at = column.saturating_sub(1);
    let before: Vec<char> =
        line.char_indices().take_while(|(byte, _)| *byte < at).map(|(_, c)| c).collect();
    let skipped = before.len().saturating_sub(CONTEXT_CHARS);
    let visible: String = line
        .chars()
        .skip(skipped)
        .take(CONTEXT_CHARS * 2)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("  {visible}\n  {}^", " ".repeat(before.len() - skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_for(text: &str) -> String {
        check("the input", text).unwrap_err().to_string()
    }

    #[test]
    fn invalid_input_json_is_marked() {
        insta::assert_snapshot!(error_for(r#"{"steps": 3, sleep: "2s"}"#), @r#"
        the input is not valid JSON: key must be a string at line 1 column 14
          {"steps": 3, sleep: "2s"}
                       ^
        "#);
        insta::assert_snapshot!(error_for("{\"a\": 1,\n \"ä\": tru}"), @r#"
        the input is not valid JSON: expected ident at line 2 column 11
           "ä": tru}
                   ^
        "#);
        insta::assert_snapshot!(error_for(" "), @"the input is empty, which is not JSON");
    }

    #[test]
    fn long_input_line_is_shortened() {
        let text = format!("[{} oops]", "1, ".repeat(100));
        insta::assert_snapshot!(error_for(&text), @"
        the input is not valid JSON: expected value at line 1 column 303
          , 1, 1, 1, 1, 1, 1, 1, 1, 1,  oops]
                                        ^
        ");
    }

    #[test]
    fn missing_input_is_an_empty_object() {
        assert_eq!(read(None).unwrap().as_str(), "{}");
    }

    #[test]
    fn input_is_read_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input.json");
        std::fs::write(&path, " [1]\n").unwrap();
        let argument = format!("@{}", path.display());
        assert_eq!(read(Some(&argument)).unwrap().as_str(), "[1]");
        assert!(read(Some("@/nowhere")).is_err());
    }
}
