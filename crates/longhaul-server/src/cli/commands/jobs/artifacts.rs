//! `longhaul artifacts`.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::HumanBytes;
use longhaul_client::{Client, Download};
use serde_json::json;

use crate::cli::output::atomic_file::{OutputFile, OutputTarget};
use crate::cli::output::color::printable;
use crate::cli::output::progress_bar::TransferBar;
use crate::cli::{CliError, CliResult, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct ArtifactsArgs {
    /// Job id
    job: String,
    /// Download the artifact of this name
    name: Option<String>,
    /// Output file, or - for stdout [default: stdout; on a terminal a new file with the name of the artifact]
    #[arg(short, long, value_name = "FILE | -", requires = "name")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(args: &ArtifactsArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult {
    let Some(name) = &args.name else {
        let artifacts = client.job(&args.job, None).await?.artifacts;
        ui.list(&json!({"artifacts": artifacts}), &artifacts, "the job has no artifacts")?;
        return Ok(Exit::Done);
    };
    let target = match &args.output {
        Some(path) => OutputTarget::named(path),
        None if ui.out_is_terminal => OutputTarget::New(default_file(name)?),
        None => OutputTarget::Stdout,
    };
    tokio::select! {
        done = download(&args.job, name, &target, client, ui) => done.map(|()| Exit::Done),
        // Handled here, so that the temporary file is deleted.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(Exit::Interrupted)
        }
    }
}

async fn download(
    job: &str,
    name: &str,
    target: &OutputTarget,
    client: &Client,
    ui: &mut Ui<'_>,
) -> CliResult<()> {
    // Opened first, so that nothing is downloaded that cannot be saved.
    let file = target.open()?;
    let download = client.artifact(job, name).await?;
    let content_type = download.content_type().to_owned();
    let size = receive(download, name, file, ui).await?;
    let Some(path) = target.path() else { return Ok(()) };
    if ui.json {
        return ui.value(&json!({
            "name": name, "contentType": content_type, "size": size, "file": path,
        }));
    }
    if ui.err_is_terminal {
        let size = ui.err_style.dim(&HumanBytes(size).to_string());
        ui.note(&format!("{}  {size}", path.display()));
    }
    Ok(())
}

/// Writes all bytes and returns their number.
async fn receive(
    mut download: Download,
    name: &str,
    mut file: OutputFile,
    ui: &mut Ui<'_>,
) -> CliResult<u64> {
    let on_terminal = matches!(file, OutputFile::Stdout) && ui.out_is_terminal;
    let bar =
        TransferBar::new(name, download.size(), ui.err_is_terminal && !on_terminal, ui.err_style);
    let mut received = 0;
    while let Some(piece) = download.next().await? {
        file.write(&piece, ui)?;
        received += piece.len() as u64;
        bar.set(received);
    }
    file.finish(ui)?;
    Ok(received)
}

/// Returns the file in the working directory for an artifact. The name comes from a server, so it
/// must not contain a path.
fn default_file(name: &str) -> CliResult<PathBuf> {
    let path = Path::new(name);
    let is_file_name = path.file_name().is_some_and(|file| file == name)
        && !name.contains('\\')
        && !name.contains(char::is_control);
    if is_file_name {
        return Ok(path.to_owned());
    }
    let message = format!("{:?} is not a file name", printable(name));
    Err(CliError::usage_with_hint(message, "name the output file with -o"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifact_name_cannot_leave_the_working_directory() {
        for name in ["", ".", "..", "/", "/etc/passwd", "a/b", "a/", "./a", "../a", "a\\b", "a\nb"]
        {
            let error = default_file(name).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage, "{name:?}");
        }
        for name in ["a.png", "..a", "a..b", "grüße.txt", "-"] {
            assert_eq!(default_file(name).unwrap(), Path::new(name));
        }
    }
}
