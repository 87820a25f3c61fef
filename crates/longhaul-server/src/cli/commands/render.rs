//! `longhaul render`: renders a diagram without a server; also the rendering process of servers.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use longhaul_render::{
    self as render, Background, ErrorCode, Format, Options, OutputType, RenderLimits,
    RenderRequest, Theme,
};
use serde_json::json;

use crate::cli::{CliError, CliResult, Ui, is_dash};

/// Interval between checks of a watched file.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Large, because renderers recurse into nested diagrams.
const STACK_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// Source file: .mmd, .mermaid or .d2, or - for stdin
    file: PathBuf,
    /// Output file: .svg or .png [default: SVG on stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Language of the source [default: from the file name]
    #[arg(long, value_name = "FORMAT", value_parser = ["mermaid", "d2"])]
    format: Option<String>,
    /// Color theme
    #[arg(long, value_parser = ["light", "dark"], default_value = "light")]
    theme: String,
    /// Background: #rrggbb or transparent
    #[arg(long, value_name = "COLOR")]
    background: Option<Background>,
    /// Pixels per unit of the diagram, for PNG
    #[arg(long, value_name = "FACTOR", conflicts_with = "width")]
    scale: Option<f64>,
    /// Width in pixels, for PNG
    #[arg(long, value_name = "PIXELS")]
    width: Option<u32>,
    /// Render again whenever the file changes, until Ctrl-C
    #[arg(long, requires = "output")]
    watch: bool,
}

pub(crate) async fn run(args: RenderArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let format = args.format()?;
    let output_type = args.output_type()?;
    if args.watch && is_dash(&args.file) {
        return Err(CliError::usage("--watch needs a file and cannot read stdin"));
    }
    let source = read(&args.file)?;
    if !args.watch {
        return args.draw(format, output_type, source, ui);
    }
    // Created once, so that no signal is lost while a diagram is rendered.
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut drawn = None;
    loop {
        // A file that is being replaced is missing for a moment.
        let source = read(&args.file).ok().filter(|source| drawn.as_ref() != Some(source));
        if let Some(source) = source {
            if let Err(error) = args.draw(format, output_type, source.clone(), ui) {
                ui.report(&error);
            }
            drawn = Some(source);
        }
        tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(()),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

impl RenderArgs {
    fn format(&self) -> CliResult<Format> {
        let ending = self.file.extension().and_then(|ending| ending.to_str());
        match self.format.as_deref().or(ending) {
            Some("mmd" | "mermaid") => Ok(Format::Mermaid),
            Some("d2") => Ok(Format::D2),
            _ => Err(CliError::usage_with_hint(
                "cannot detect the language from the file name",
                "set it with --format mermaid or --format d2",
            )),
        }
    }

    fn output_type(&self) -> CliResult<OutputType> {
        let Some(output) = self.output.as_ref().filter(|output| !is_dash(output)) else {
            return Ok(OutputType::Svg);
        };
        match output.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => Ok(OutputType::Svg),
            Some("png") => Ok(OutputType::Png),
            _ => Err(CliError::usage("the output file must end in .svg or .png")),
        }
    }

    fn draw(
        &self,
        format: Format,
        output_type: OutputType,
        source: String,
        ui: &mut Ui<'_>,
    ) -> CliResult<()> {
        let theme = if self.theme == "dark" { Theme::Dark } else { Theme::Light };
        let Self { background, scale, width, .. } = *self;
        let options = Options { theme, background, scale, width };
        let picture = picture(RenderRequest { source, format, output_type, options })?;
        let Some(output) = self.output.as_ref().filter(|output| !is_dash(output)) else {
            ui.bytes(&picture)?;
            return ui.flush();
        };
        replace(output, &picture).map_err(|error| cannot("write", output, error))?;
        if ui.json {
            let (file, bytes) = (output, picture.len());
            ui.value(
                &json!({"file": file, "contentType": output_type.content_type(), "bytes": bytes}),
            )
        } else {
            ui.note(&format!("{}  {} bytes", output.display(), picture.len()));
            Ok(())
        }
    }
}

fn picture(request: RenderRequest) -> CliResult<Vec<u8>> {
    let draw = move || render::render(&request, &RenderLimits::default());
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(draw);
    let thread = thread.map_err(|error| CliError::Other(error.into()))?;
    let drawn =
        thread.join().map_err(|_| CliError::Other(anyhow::anyhow!("the renderer panicked")))?;
    drawn.map_err(|error| match error.code {
        ErrorCode::BadInput => CliError::usage(error.to_string()),
        ErrorCode::Syntax
        | ErrorCode::Unsupported
        | ErrorCode::TooLarge
        | ErrorCode::TookTooLong
        | ErrorCode::RendererFailed => CliError::Other(error.into()),
    })
}

fn read(file: &Path) -> CliResult<String> {
    if is_dash(file) {
        let mut source = String::new();
        let read = std::io::stdin().lock().read_to_string(&mut source);
        return read.map(|_| source).map_err(|error| cannot("read", file, error));
    }
    std::fs::read_to_string(file).map_err(|error| cannot("read", file, error))
}

/// Replaces a file atomically, so that viewers never see a partial image.
fn replace(output: &Path, picture: &[u8]) -> std::io::Result<()> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(picture)?;
    file.persist(output).map_err(|error| error.error)?;
    Ok(())
}

fn cannot(what: &str, file: &Path, error: std::io::Error) -> CliError {
    let context = format!("cannot {what} {}", file.display());
    CliError::Other(anyhow::Error::new(error).context(context))
}

/// `longhaul render-worker`: renders the requests of a server from stdin. Without a runtime, because its
/// threads would count against the memory limit of the process.
pub(crate) fn worker() -> std::process::ExitCode {
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    match render::run_worker(input, std::io::BufWriter::new(output)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}
