//! What the end of a program means for its job. Pure.

use std::io;
use std::os::unix::process::ExitStatusExt;

use longhaul::JobError;
use longhaul::job::Json;
use rustix::io::Errno;

use super::process_group::{ExchangeError, ProgramOutput};
use super::stderr_protocol::LogTail;

/// `EX_TEMPFAIL` of sysexits.h: a failure that another attempt may not meet.
const TRY_AGAIN: i32 = 75;
/// How much of an output that is not JSON is quoted.
const QUOTED_CHARS_MAX: usize = 200;

/// A program has ended: its output, or why there is none.
pub(super) fn of(program: &str, ended: ProgramOutput, tail: &LogTail) -> Result<Json, JobError> {
    let how = match (ended.status.code(), ended.status.signal()) {
        (Some(0), _) => return output(program, ended.stdout),
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    };
    let message = if tail.is_empty() {
        format!("{program} {how} and said nothing on stderr")
    } else {
        format!("{program} {how}:\n{tail}")
    };
    match ended.status.code() {
        Some(TRY_AGAIN) | None => Err(JobError::retryable(message)),
        Some(_) => Err(JobError::fatal(message)),
    }
}

/// A program could not be started.
pub(super) fn not_started(program: &str, error: &io::Error) -> JobError {
    let message = format!("cannot start {program}: {error}");
    // Too many processes or open files, no memory, the file being written right now: that passes.
    // The rest is for whoever configured the program to mend.
    let passes = matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::TXTBSY)
    );
    let error = if passes { JobError::retryable(message) } else { JobError::fatal(message) };
    error.with_code("cannot-start")
}

/// A program was not listened to until its end.
pub(super) fn broken_off(program: &str, fault: &ExchangeError) -> JobError {
    let message = format!("{program}: {fault}");
    match fault {
        ExchangeError::StdoutTooLong { .. } => JobError::fatal(message).with_code("limit"),
        ExchangeError::Io(_) => JobError::retryable(message),
    }
}

fn output(program: &str, stdout: Vec<u8>) -> Result<Json, JobError> {
    if stdout.trim_ascii().is_empty() {
        return Ok(Json::null());
    }
    let refused = |why: &dyn std::fmt::Display, text: &str| {
        let mut quoted: String = text.trim_start().chars().take(QUOTED_CHARS_MAX).collect();
        if quoted.len() < text.trim().len() {
            quoted.push('…');
        }
        let message = format!(
            "{program} exited with status 0, but what it wrote to stdout is not JSON ({why}): {quoted:?}"
        );
        JobError::fatal(message).with_code("bad-output")
    };
    let text = String::from_utf8(stdout)
        .map_err(|error| refused(&error, &String::from_utf8_lossy(error.as_bytes())))?;
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(Json::from_text(text)?),
        Err(error) => Err(refused(&error, &text)),
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
    fn output_is_kept_as_it_was_written() {
        let output = of("p", ended(0, "{\"n\": 1.50}\n"), &LogTail::default()).unwrap();
        assert_eq!(output.as_str(), "{\"n\": 1.50}");
    }

    #[test]
    fn no_output_is_null() {
        for nothing in ["", " \n"] {
            assert_eq!(of("p", ended(0, nothing), &LogTail::default()).unwrap(), Json::null());
        }
    }

    #[test]
    fn only_exit_code_75_and_signals_are_worth_another_attempt() {
        let retryable = |ended| of("p", ended, &LogTail::default()).unwrap_err().retryable;
        assert!(retryable(exit(75)));
        assert!(retryable(ended(9, "")));
        for code in [1, 2, 74, 76, 127, 137, 255] {
            assert!(!retryable(exit(code)), "{code}");
        }
    }

    #[test]
    fn output_that_is_not_json_is_quoted_in_part() {
        let error = of("p", ended(0, &"ä".repeat(1_000)), &LogTail::default()).unwrap_err();
        assert_eq!((error.code.as_str(), error.retryable), ("bad-output", false));
        assert!(error.message.ends_with(&format!("{}…\"", "ä".repeat(200))), "{error}");
    }

    #[test]
    fn failure_ends_with_what_was_said_last() {
        let mut tail = LogTail::default();
        tail.push("no such table".to_owned());
        let error = of("./index", exit(3), &tail).unwrap_err();
        assert_eq!(error.message, "./index exited with status 3:\nno such table");
        let error = of("./index", exit(3), &LogTail::default()).unwrap_err();
        assert_eq!(error.message, "./index exited with status 3 and said nothing on stderr");
    }
}
