//! A job's input from the command line: inline, from a file, or from stdin.

use std::io::Read as _;

use longhaul_client::wire::RawJson;

use crate::cli::CliError;

/// How much of a broken line is shown on each side of the mistake.
const SHOWN_CHARS: usize = 30;

/// Reads `INPUT_JSON`, `@FILE` or `-`. Nothing at all is `{}`.
pub(crate) fn read(argument: Option<&str>) -> Result<RawJson, CliError> {
    let (place, text) = match argument {
        None => ("the input".to_owned(), "{}".to_owned()),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| CliError::usage(format!("cannot read stdin: {error}")))?;
            ("stdin".to_owned(), text)
        }
        Some(argument) => match argument.strip_prefix('@') {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| CliError::usage(format!("cannot read {path}: {error}")))?;
                (path.to_owned(), text)
            }
            None => ("the input".to_owned(), argument.to_owned()),
        },
    };
    check(&place, &text)
}

fn check(place: &str, text: &str) -> Result<RawJson, CliError> {
    if text.trim().is_empty() {
        return Err(CliError::Usage {
            message: format!("{place} is empty, which is not JSON"),
            hint: Some("leave it out for {}, or write null".to_owned()),
        });
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let shown = show(text, error.line(), error.column());
        return Err(CliError::Usage {
            message: format!("{place} is not valid JSON: {error}\n{shown}"),
            hint: Some(r#"quote JSON for the shell, like '{"steps": 3}'"#.to_owned()),
        });
    }
    RawJson::from_text(text.trim())
        .map_err(|error| CliError::usage(format!("{place} is not valid JSON: {error}")))
}

/// The line with the mistake and a mark under its place. Columns count bytes, from 1.
fn show(text: &str, line: usize, column: usize) -> String {
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let at = column.saturating_sub(1);
    let before: Vec<char> =
        line.char_indices().take_while(|(byte, _)| *byte < at).map(|(_, c)| c).collect();
    let skipped = before.len().saturating_sub(SHOWN_CHARS);
    let shown: String = line
        .chars()
        .skip(skipped)
        .take(SHOWN_CHARS * 2)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("  {shown}\n  {}^", " ".repeat(before.len() - skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        check("the input", text).unwrap_err().message()
    }

    #[test]
    fn a_mistake_is_shown_where_it_is() {
        insta::assert_snapshot!(refusal(r#"{"steps": 3, sleep: "2s"}"#), @r#"
        the input is not valid JSON: key must be a string at line 1 column 14
          {"steps": 3, sleep: "2s"}
                       ^
        "#);
        insta::assert_snapshot!(refusal("{\"a\": 1,\n \"ä\": tru}"), @r#"
        the input is not valid JSON: expected ident at line 2 column 11
           "ä": tru}
                   ^
        "#);
        insta::assert_snapshot!(refusal(" "), @"the input is empty, which is not JSON");
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!("[{} oops]", "1, ".repeat(100));
        insta::assert_snapshot!(refusal(&text), @"
        the input is not valid JSON: expected value at line 1 column 303
          , 1, 1, 1, 1, 1, 1, 1, 1, 1,  oops]
                                        ^
        ");
    }

    #[test]
    fn no_input_is_an_empty_object() {
        assert_eq!(read(None).unwrap().as_str(), "{}");
    }

    #[test]
    fn a_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input.json");
        std::fs::write(&path, " [1]\n").unwrap();
        let argument = format!("@{}", path.display());
        assert_eq!(read(Some(&argument)).unwrap().as_str(), "[1]");
        assert!(read(Some("@/nowhere")).is_err());
    }
}
