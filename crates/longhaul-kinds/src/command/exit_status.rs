//! Maps the exit of a program to a result or an error of its job. Pure.

use std::io;
use std::os::unix::process::ExitStatusExt;

use longhaul::JobError;
use longhaul::job::Json;
use rustix::io::Errno;

use super::process_group::{PipeError, ProgramOutput};
use super::stderr_protocol::LogTail;
use crate::job_error;

/// `EX_TEMPFAIL` of sysexits.h, a temporary failure.
const EX_TEMPFAIL: i32 = 75;
/// Characters of an invalid output in the error.
const QUOTED_CHARS_MAX: usize = 200;

/// Returns the output of a program that exited with 0, or else an error.
pub(super) fn into_result(
    program: &str,
    ended: ProgramOutput,
    tail: &LogTail,
) -> Result<Json, JobError> {
    let how = match (ended.status.code(), ended.status.signal()) {
        (Some(0), _) => return output(program, ended.stdout),
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    };
    let message = if tail.is_empty() {
        format!("{program} {how} and wrote nothing to stderr")
    } else {
        format!("{program} {how}:\n{tail}")
    };
    match ended.status.code() {
        Some(EX_TEMPFAIL) | None => Err(JobError::retryable(message)),
        Some(_) => Err(JobError::fatal(message)),
    }
}

pub(super) fn not_started(program: &str, error: &io::Error) -> JobError {
    let message = format!("cannot start {program}: {error}");
    // Temporary: too many processes or open files, no memory, or the file is being written. Other errors
    // are permanent until the operator fixes the configuration.
    let is_temporary = matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::TXTBSY)
    );
    job_error(is_temporary, message, "cannot-start")
}

pub(super) fn exchange_failed(program: &str, error: &PipeError) -> JobError {
    let message = format!("{program}: {error}");
    match error {
        PipeError::StdoutTooLong { .. } => JobError::fatal(message).with_code("limit"),
        PipeError::Io(_) => JobError::retryable(message),
    }
}

fn output(program: &str, stdout: Vec<u8>) -> Result<Json, JobError> {
    if stdout.trim_ascii().is_empty() {
        return Ok(Json::null());
    }
    let invalid = |why: &dyn std::fmt::Display, text: &str| {
        let mut quoted: String = text.trim_start().chars().take(QUOTED_CHARS_MAX).collect();
        if quoted.len() < text.trim().len() {
            quoted.push('…');
        }
        let message = format!(
            "{program} exited with status 0, but its stdout is not JSON ({why}): {quoted:?}"
        );
        JobError::fatal(message).with_code("bad-output")
    };
    let text = String::from_utf8(stdout)
        .map_err(|error| invalid(&error, &String::from_utf8_lossy(error.as_bytes())))?;
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(Json::from_text(text)?),
        Err(error) => Err(invalid(&error, &text)),
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    fn ended(wait_status: i32, stdout: &str) -> ProgramOutput {
        ProgramOutput { status: ExitStatus::from_raw(wait_status), stdout: stdout.into() }
    }

    fn exit(code: i32) -> ProgramOutput {
        ended(code << 8, "null")
    }

    #[test]
    fn program_output_is_kept_verbatim() {
        let output = into_result("p", ended(0, "{\"n\": 1.50}\n"), &LogTail::default()).unwrap();
        assert_eq!(output.as_str(), "{\"n\": 1.50}");
    }

    #[test]
    fn empty_program_output_is_null() {
        for nothing in ["", " \n"] {
            assert_eq!(
                into_result("p", ended(0, nothing), &LogTail::default()).unwrap(),
                Json::null()
            );
        }
    }

    #[test]
    fn only_exit_code_75_and_signals_are_retried() {
        let retryable = |ended| into_result("p", ended, &LogTail::default()).unwrap_err().retryable;
        assert!(retryable(exit(75)));
        assert!(retryable(ended(9, "")));
        for code in [1, 2, 74, 76, 127, 137, 255] {
            assert!(!retryable(exit(code)), "{code}");
        }
    }

    #[test]
    fn invalid_program_output_is_quoted_in_part() {
        let error =
            into_result("p", ended(0, &"ä".repeat(1_000)), &LogTail::default()).unwrap_err();
        assert_eq!((error.code.as_str(), error.retryable), ("bad-output", false));
        assert!(error.message.ends_with(&format!("{}…\"", "ä".repeat(200))), "{error}");
    }

    #[test]
    fn failed_program_error_contains_the_log_tail() {
        let mut tail = LogTail::default();
        tail.push("no such table".to_owned());
        let error = into_result("./index", exit(3), &tail).unwrap_err();
        assert_eq!(error.message, "./index exited with status 3:\nno such table");
        let error = into_result("./index", exit(3), &LogTail::default()).unwrap_err();
        assert_eq!(error.message, "./index exited with status 3 and wrote nothing to stderr");
    }
}
