//! Child process side: renders one diagram after the other within resource limits that the process
//! sets for itself.
//!
//! Standard input carries a line of JSON with the [`RenderLimits`], then one line per [`RenderRequest`].
//! For each request, standard output carries a line of JSON, a [`WorkerReply`], followed by the
//! bytes of the image. The worker exits when standard input ends.

use std::io::{self, BufRead, Read, Write};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{ErrorCode, RenderError, RenderLimits, RenderRequest, render};

/// Bytes of the line that carries the limits.
const LIMITS_BYTES_MAX: u64 = 4 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WorkerReply {
    /// Length of the image that follows.
    Bytes(usize),
    Error(RenderError),
}

/// Renders requests from `input` until it ends.
///
/// Limits memory, CPU time and file access of the whole process, so call it in a process that does
/// nothing else.
pub fn run_worker(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    Read::by_ref(&mut input).take(LIMITS_BYTES_MAX).read_until(b'\n', &mut line)?;
    let limits: RenderLimits = serde_json::from_slice(&line)?;
    confine(&limits)?;
    loop {
        line.clear();
        // JSON escapes a byte with six bytes at most.
        let line_max = limits.source_bytes_max.saturating_mul(6).saturating_add(64 * 1024);
        let read = Read::by_ref(&mut input).take(line_max as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        extend_cpu_time(&limits)?;
        let rendered = match serde_json::from_slice::<RenderRequest>(&line) {
            Ok(request) => render(&request, &limits),
            Err(error) => Err(RenderError::new(ErrorCode::BadInput, error.to_string())),
        };
        let (reply, image) = match rendered {
            Ok(image) => (WorkerReply::Bytes(image.len()), image),
            Err(error) => (WorkerReply::Error(error), Vec::new()),
        };
        serde_json::to_writer(&mut output, &reply)?;
        output.write_all(b"\n")?;
        output.write_all(&image)?;
        output.flush()?;
    }
}

/// Limits memory, and forbids core dumps, because a dump would contain sources. Then gives up network and files: fonts
/// are part of the program.
fn confine(limits: &RenderLimits) -> io::Result<()> {
    set_limit(Resource::As, limits.memory_bytes_max)?;
    set_limit(Resource::Fsize, 0)?;
    set_limit(Resource::Core, 0)?;
    longhaul_confine::confine()
}

fn set_limit(resource: Resource, max: u64) -> io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })?)
}

/// Allows the CPU time of one more diagram, on top of the time used so far.
fn extend_cpu_time(limits: &RenderLimits) -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let used = u64::try_from(used).unwrap_or_default();
    // The limit counts whole seconds: two more, because both ends are rounded down.
    let until = used.saturating_add(limits.time_max.as_secs()).saturating_add(2);
    Ok(setrlimit(Resource::Cpu, Rlimit { current: Some(until), maximum: None })?)
}
