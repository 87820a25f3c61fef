//! The output stream of a running attempt.

use super::Ctx;
use crate::engine::OutputWriter;

impl Ctx {
    /// Starts the output stream of this attempt, for callers that read it while the job runs, on any
    /// replica. Its chunks are not stored with the job, and may be lost: the result is authoritative. Call
    /// this once, and only if callers read the stream, because it costs writes to the database.
    pub fn output_stream(&self) -> OutputWriter {
        self.shared().output_streams.write(&self.0.lease)
    }
}
