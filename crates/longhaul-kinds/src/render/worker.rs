//! The side of the child: pictures one after the other, within limits that the process sets itself.
//!
//! On stdin comes a line of JSON with the [`Limits`], then one for each picture, a [`Request`]; on stdout goes a line of JSON, an [`Answer`], and behind
//! it as many bytes as it says. The end of stdin is the end.

use std::io::{self, BufRead, Read, Write};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Code, Limits, RenderError, Request, picture};

/// The longest line that limits take.
const LIMITS_BYTES_MAX: u64 = 4 * 1024;

/// What comes of a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Answer {
    /// That many bytes of a picture follow.
    Bytes(usize),
    /// There is none.
    Error(RenderError),
}

/// Draws what is asked for on `input` until it ends. Bounds the whole process: call it in one that does
/// nothing else.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    Read::by_ref(&mut input).take(LIMITS_BYTES_MAX).read_until(b'\n', &mut line)?;
    let limits: Limits = serde_json::from_slice(&line)?;
    confine(&limits)?;
    loop {
        line.clear();
        // A letter of a source takes six of JSON at most.
        let line_max = limits.source_bytes_max.saturating_mul(6).saturating_add(64 * 1024);
        let read = Read::by_ref(&mut input).take(line_max as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        allow_time(&limits)?;
        let drawn = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => picture(&request, &limits),
            Err(error) => Err(RenderError::new(Code::BadInput, error.to_string())),
        };
        let (answer, picture) = match drawn {
            Ok(picture) => (Answer::Bytes(picture.len()), picture),
            Err(error) => (Answer::Error(error), Vec::new()),
        };
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.write_all(&picture)?;
        output.flush()?;
    }
}

/// Takes away what drawing does not need: memory without end, files to write, and traces of sources in dumps.
fn confine(limits: &Limits) -> io::Result<()> {
    bound(Resource::As, limits.memory_bytes_max)?;
    bound(Resource::Fsize, 0)?;
    bound(Resource::Core, 0)
}

fn bound(resource: Resource, max: u64) -> io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })?)
}

/// The processor time of one more picture, behind what was used before.
fn allow_time(limits: &Limits) -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let used = u64::try_from(used).unwrap_or_default();
    // Whole seconds only: one for what was begun, one for what is.
    let until = used.saturating_add(limits.time_max.as_secs()).saturating_add(2);
    Ok(setrlimit(Resource::Cpu, Rlimit { current: Some(until), maximum: None })?)
}
