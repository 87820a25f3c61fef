//! `longhaul artifacts`.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::HumanBytes;
use longhaul_client::{Client, Download};
use serde_json::json;

use crate::cli::output::atomic_file::{OutputFile, OutputTarget};
use crate::cli::output::color::printable;
use crate::cli::output::progress_bar::TransferBar;
use crate::cli::output::table;
use crate::cli::{CliError, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct ArtifactsArgs {
    /// The job's id
    job: String,
    /// Download the artifact of this name
    name: Option<String>,
    /// Write it to this file, - for stdout [default: stdout; on a terminal a new file of its name]
    #[arg(short, long, value_name = "FILE | -", requires = "name")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(
    args: &ArtifactsArgs,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let Some(name) = &args.name else {
        list(&args.job, client, ui).await?;
        return Ok(Exit::Done);
    };
    let target = match &args.output {
        Some(path) => OutputTarget::named(path),
        None if ui.out_is_terminal => OutputTarget::New(file_of(name)?),
        None => OutputTarget::Stdout,
    };
    tokio::select! {
        done = download(&args.job, name, &target, client, ui) => done.map(|()| Exit::Done),
        // Here and not by the system, so that the draft is deleted.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(Exit::Interrupted)
        }
    }
}

async fn list(job: &str, client: &Client, ui: &mut Ui<'_>) -> Result<(), CliError> {
    let artifacts = client.job(job, None).await?.artifacts;
    if ui.json {
        return ui.value(&json!({"artifacts": artifacts}));
    }
    if artifacts.is_empty() {
        ui.note("the job has no artifacts");
        return Ok(());
    }
    ui.line(&table::artifacts(&artifacts, ui.out_style))
}

async fn download(
    job: &str,
    name: &str,
    target: &OutputTarget,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<(), CliError> {
    // First, so that nothing is asked for that could not be kept.
    let saving = target.open()?;
    let download = client.artifact(job, name).await?;
    let content_type = download.content_type().to_owned();
    let size = receive(download, name, saving, ui).await?;
    let Some(path) = target.path() else { return Ok(()) };
    if ui.json {
        return ui.value(&json!({
            "name": name, "contentType": content_type, "size": size, "file": path,
        }));
    }
    if ui.err_is_terminal {
        ui.note(&format!(
            "{}  {}",
            path.display(),
            ui.err_style.dim(&HumanBytes(size).to_string())
        ));
    }
    Ok(())
}

/// Takes all bytes in and returns how many they were.
async fn receive(
    mut download: Download,
    name: &str,
    mut saving: OutputFile,
    ui: &mut Ui<'_>,
) -> Result<u64, CliError> {
    let beside = matches!(saving, OutputFile::Stdout) && ui.out_is_terminal;
    let bar = TransferBar::new(name, download.size(), ui.err_is_terminal && !beside, ui.err_style);
    let mut received = 0;
    while let Some(piece) = download.next().await? {
        saving.write(&piece, ui)?;
        received += piece.len() as u64;
        bar.passed(received);
    }
    saving.finish(ui)?;
    Ok(received)
}

/// The file in the current folder that an artifact is written to if nobody names one. A name that
/// came from a server must not lead anywhere else.
fn file_of(name: &str) -> Result<PathBuf, CliError> {
    let path = Path::new(name);
    let is_a_file_name = path.file_name().is_some_and(|file| file == name)
        && !name.contains('\\')
        && !name.contains(char::is_control);
    if is_a_file_name {
        return Ok(path.to_owned());
    }
    Err(CliError::Usage {
        message: format!("{:?} is not a file's name", printable(name)),
        hint: Some("-o names the file to write to".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_folder() {
        for name in ["", ".", "..", "/", "/etc/passwd", "a/b", "a/", "./a", "../a", "a\\b", "a\nb"]
        {
            let error = file_of(name).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage, "{name:?}");
        }
        for name in ["a.png", "..a", "a..b", "grüße.txt", "-"] {
            assert_eq!(file_of(name).unwrap(), Path::new(name));
        }
    }
}
