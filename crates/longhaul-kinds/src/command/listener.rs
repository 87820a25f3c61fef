//! Listens to a program's stderr.

use std::io;

use longhaul::Ctx;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::said::{Lines, Said, Tail};

/// Each phase is a transition that is stored for good: a program must not be able to write
/// without end. Further ones are ignored.
const PHASES_MAX: usize = 100;

/// Passes on what a program says of its progress and keeps the end of the rest.
pub(super) struct Listener<'a> {
    ctx: &'a Ctx,
    lines: Lines,
    tail: Tail,
    phases: usize,
    told_progress: bool,
}

impl<'a> Listener<'a> {
    pub(super) fn new(ctx: &'a Ctx) -> Self {
        let (lines, tail) = (Lines::default(), Tail::default());
        Self { ctx, lines, tail, phases: 0, told_progress: false }
    }

    /// Listens until the other end is closed.
    pub(super) async fn listen(
        &mut self,
        stderr: Option<impl AsyncRead + Unpin>,
    ) -> io::Result<()> {
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
                self.hear(line).await;
            }
        }
        if let Some(line) = self.lines.rest() {
            self.hear(line).await;
        }
        Ok(())
    }

    pub(super) fn told_progress(&self) -> bool {
        self.told_progress
    }

    pub(super) fn tail(&self) -> &Tail {
        &self.tail
    }

    async fn hear(&mut self, line: String) {
        match Said::parse(&line) {
            Said::Progress { done, total, message } => {
                self.told_progress = true;
                match message {
                    Some(message) => self.ctx.progress_with(done, total, message),
                    None => self.ctx.progress(done, total),
                }
            }
            Said::Phase(phase) => self.enter(phase).await,
            Said::Log => {
                tracing::trace!(job.id = %self.ctx.id(), "{line}");
                self.tail.push(line);
            }
        }
    }

    async fn enter(&mut self, phase: String) {
        if self.phases == PHASES_MAX {
            return;
        }
        self.phases += 1;
        // A phase is news, not work: losing one must not fail the job.
        if let Err(error) = self.ctx.phase(phase).await {
            tracing::warn!(%error, job.id = %self.ctx.id(), "cannot store a job's phase");
        }
    }
}
