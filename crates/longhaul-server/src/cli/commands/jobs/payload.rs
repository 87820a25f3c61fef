//! A payload on the command line: a file or stdin, and the bar that shows how far it is.

use std::path::{Path, PathBuf};

use clap::Args;
use longhaul_client::wire::{Job, SubmitRequest};
use longhaul_client::{Client, Payload, SubmitOptions};

use crate::cli::output::progress_bar::TransferBar;
use crate::cli::{CliError, Ui, is_dash};

/// What a payload from stdin goes by.
const STDIN: &str = "stdin";

#[derive(Debug, Args)]
pub(crate) struct PayloadArgs {
    /// Send this file along, of any size; - for stdin, which is not sent again if the connection breaks
    #[arg(long, value_name = "PATH | -")]
    pub(crate) payload: Option<PathBuf>,
    /// What the payload is, like image/png [default: what the file's name says]
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
) -> Result<Job, CliError> {
    let mut payload = if is_dash(path) {
        Payload::reader(STDIN, tokio::io::stdin())
    } else {
        Payload::file(path)
    };
    if let Some(content_type) = &args.payload_type {
        payload = payload.content_type(content_type);
    }
    let bar = TransferBar::new(&name(path), size(path), ui.err_is_terminal, ui.err_style);
    let payload = payload.on_progress(bar.watcher());
    Ok(client.submit_with_payload(request, payload, options).await?)
}

fn name(path: &Path) -> String {
    if is_dash(path) { STDIN.to_owned() } else { path.display().to_string() }
}

/// For the bar alone: what cannot be read is told when it is.
fn size(path: &Path) -> Option<u64> {
    let file = std::fs::metadata(path).ok().filter(|file| file.is_file() && !is_dash(path));
    file.map(|file| file.len())
}
