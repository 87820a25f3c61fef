//! Upload of a payload from a file or stdin, with a progress bar.

use std::path::{Path, PathBuf};

use clap::Args;
use longhaul_client::wire::{Job, SubmitRequest};
use longhaul_client::{Client, Payload, SubmitOptions};

use crate::cli::output::progress_bar::TransferBar;
use crate::cli::{CliResult, Ui, is_dash};

/// Name of a payload from stdin.
const STDIN: &str = "stdin";

#[derive(Debug, Args)]
pub(crate) struct PayloadArgs {
    /// File to upload, of any size, or - for stdin, which cannot be retried after a lost connection
    #[arg(long, value_name = "PATH | -")]
    pub(crate) payload: Option<PathBuf>,
    /// Media type of the payload, for example image/png [default: from the file name]
    #[arg(long, value_name = "TYPE", requires = "payload")]
    payload_type: Option<String>,
}

/// Submits a job with the payload at `path`.
pub(crate) async fn submit(
    client: &Client,
    request: &SubmitRequest,
    path: &Path,
    args: &PayloadArgs,
    options: &SubmitOptions,
    ui: &mut Ui<'_>,
) -> CliResult<Job> {
    let (mut payload, name, size) = if is_dash(path) {
        (Payload::reader(STDIN, tokio::io::stdin()), STDIN.to_owned(), None)
    } else {
        // Errors are reported by the upload.
        let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        (Payload::file(path), path.display().to_string(), file.map(|file| file.len()))
    };
    if let Some(content_type) = &args.payload_type {
        payload = payload.content_type(content_type);
    }
    let bar = TransferBar::new(&name, size, ui.err_is_terminal, ui.err_style);
    let payload = payload.on_progress(bar.callback());
    Ok(client.submit_with_payload(request, payload, options).await?)
}
