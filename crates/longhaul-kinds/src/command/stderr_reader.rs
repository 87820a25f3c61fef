//! Reads a program's stderr.

use std::io;

use longhaul::Ctx;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::stderr_protocol::{LineSplitter, LogTail, StderrLine};

/// Further phases are ignored, because each one is stored as an event of the job.
const PHASES_MAX: usize = 100;

/// Reports progress and phases, and keeps the end of the log.
pub(super) struct StderrReader<'a> {
    ctx: &'a Ctx,
    lines: LineSplitter,
    tail: LogTail,
    phases: usize,
    reports_progress: bool,
}

impl<'a> StderrReader<'a> {
    pub(super) fn new(ctx: &'a Ctx) -> Self {
        let (lines, tail) = (LineSplitter::default(), LogTail::default());
        Self { ctx, lines, tail, phases: 0, reports_progress: false }
    }

    /// Reads until the pipe closes.
    pub(super) async fn read(&mut self, stderr: Option<impl AsyncRead + Unpin>) -> io::Result<()> {
        let Some(stderr) = stderr else { return Ok(()) };
        let mut stderr = BufReader::new(stderr);
        loop {
            let bytes = stderr.fill_buf().await?;
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len();
            let lines = self.lines.feed(bytes);
            stderr.consume(count);
            for line in lines {
                self.handle_line(line).await;
            }
        }
        if let Some(line) = self.lines.finish() {
            self.handle_line(line).await;
        }
        Ok(())
    }

    pub(super) fn reports_progress(&self) -> bool {
        self.reports_progress
    }

    pub(super) fn tail(&self) -> &LogTail {
        &self.tail
    }

    async fn handle_line(&mut self, line: String) {
        match StderrLine::parse(&line) {
            StderrLine::Progress { done, total, message } => {
                self.reports_progress = true;
                match message {
                    Some(message) => self.ctx.progress_with(done, total, message),
                    None => self.ctx.progress(done, total),
                }
            }
            StderrLine::Phase(phase) => self.set_phase(phase).await,
            StderrLine::Log => {
                tracing::trace!(job.id = %self.ctx.id(), "{line}");
                self.tail.push(line);
            }
        }
    }

    async fn set_phase(&mut self, phase: String) {
        if self.phases == PHASES_MAX {
            return;
        }
        self.phases += 1;
        // A phase is informational: losing one must not fail the job.
        if let Err(error) = self.ctx.phase(phase).await {
            tracing::warn!(%error, job.id = %self.ctx.id(), "cannot store the phase of a job");
        }
    }
}
