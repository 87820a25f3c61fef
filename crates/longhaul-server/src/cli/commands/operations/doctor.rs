//! `longhaul doctor`: checks everything that a server needs, without changing anything.

mod checks;
mod database;
mod finding;
mod keys;
mod peer;
mod programs;
mod targets;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use longhaul_server::config::{Config, EffectiveSetting, Flags, Sources};
use serde_json::json;

use self::finding::{CheckVerdict, Finding};
use self::peer::Peer;
use crate::cli::output::color::{Paint, printable};
use crate::cli::{CliResult, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of `serve`
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Data directory of `serve`
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// Database of `serve`
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

pub(crate) async fn run(args: DoctorArgs, ui: &mut Ui<'_>) -> CliResult {
    let DoctorArgs { config, listen, data, database } = args;
    let listen = listen.map(|address| address.to_string());
    let flags = Flags { listen, data, database, ..Flags::default() };
    let sources = Sources::of_process(config, flags);
    let (settings, findings) = match Config::load(&sources) {
        Ok((config, settings)) => (settings, examine(&config).await),
        Err(wrong) => (Vec::new(), wrong.0.iter().map(configuration_error).collect()),
    };
    show(ui, &settings, &findings)?;
    let failed = findings.iter().any(|finding| finding.verdict == CheckVerdict::Bad);
    Ok(if failed { Exit::Broken } else { Exit::Done })
}

fn configuration_error(error: &longhaul_server::config::ConfigError) -> Finding {
    Finding::bad("configuration", error.to_string(), "fix this first; other checks were skipped")
}

async fn examine(config: &Config) -> Vec<Finding> {
    let peer = Peer::at(config.listen).await;
    let mut findings = vec![
        Finding::good("configuration", "OK"),
        checks::data_dir(&config.data),
        checks::free_space(&config.data),
        database::version(),
    ];
    findings.extend(database::database(&config.database, peer).await);
    findings.extend([
        keys::server_keys(config).await,
        port(config, peer),
        checks::clock(&config.database),
        checks::open_files(config.http.connections_max),
    ]);
    findings.extend(config.tls.as_ref().map(checks::certificate));
    findings.extend(keys::issuer(config).await);
    findings.extend(programs::all(config));
    findings.extend(targets::all(config).await);
    findings
}

fn port(config: &Config, peer: Peer) -> Finding {
    if config.role.serves_http() {
        return checks::port(config.listen, peer);
    }
    Finding::good("address", "not used by a worker")
}

fn show(ui: &mut Ui<'_>, settings: &[EffectiveSetting], findings: &[Finding]) -> CliResult<()> {
    if ui.json {
        let setting = |EffectiveSetting { key, value, origin }: &EffectiveSetting| json!({"key": key, "value": value, "origin": origin.to_string()});
        let settings: Vec<_> = settings.iter().map(setting).collect();
        let ok = findings.iter().all(|finding| finding.verdict != CheckVerdict::Bad);
        return ui.value(&json!({"ok": ok, "checks": findings, "settings": settings}));
    }
    let style = ui.out_style;
    let width = settings.iter().map(|one| one.key.len()).max().unwrap_or(0);
    for EffectiveSetting { key, value, origin } in settings {
        let origin = style.dim(&format!("({origin})"));
        ui.line(&format!("  {key:<width$}  {} {origin}", printable(value)))?;
    }
    for Finding { check, verdict, detail, advice } in findings {
        let (sign, paint) = match verdict {
            CheckVerdict::Good => ("✓", Paint::Green),
            CheckVerdict::Doubtful => ("!", Paint::Yellow),
            CheckVerdict::Bad => ("✗", Paint::Red),
        };
        ui.line(&format!("{} {check}: {}", style.paint(paint, sign), printable(detail)))?;
        if let Some(advice) = advice {
            ui.line(&style.dim(&format!("    {advice}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhaul::Clock;

    use super::*;

    async fn doctor(json: bool, config: &str) -> (Exit, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("longhaul.toml");
        std::fs::write(&file, config).unwrap();
        let args = DoctorArgs {
            config: Some(file),
            listen: Some("127.0.0.1:0".parse().unwrap()),
            data: Some(folder.path().join("data").display().to_string()),
            database: Some("memory".to_owned()),
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut ui = Ui::captured(&mut out, &mut err, json, Clock::system());
        let exit = run(args, &mut ui).await.unwrap();
        let text = String::from_utf8(out).unwrap();
        (exit, text.replace(&*folder.path().to_string_lossy(), "FOLDER"))
    }

    #[tokio::test]
    async fn doctor_reports_a_healthy_machine_with_all_settings() {
        let (exit, text) = doctor(false, "sync_wait_max = \"5s\"\n").await;
        assert_eq!(exit, Exit::Done, "{text}");
        for line in [
            "\"5s\" (FOLDER/longhaul.toml:1)",
            "✓ configuration: OK",
            "✓ data directory: FOLDER/data does not exist yet and can be created",
            "✓ database: in memory",
            "✓ server key: matches stored data",
            "✓ address: 127.0.0.1:0 is free",
        ] {
            assert!(text.contains(line), "{line:?} is missing in\n{text}");
        }
    }

    #[tokio::test]
    async fn doctor_reports_configuration_errors_with_their_lines() {
        let (exit, text) = doctor(false, "sync_wait_max = \"soon\"\nlisten_on = 1\n").await;
        assert_eq!(exit, Exit::Broken);
        assert!(text.contains("✗ configuration: FOLDER/longhaul.toml:1: "), "{text}");
        assert!(text.contains("✗ configuration: FOLDER/longhaul.toml:2: "), "{text}");
    }

    #[tokio::test]
    async fn doctor_reports_missing_programs_as_json() {
        let (exit, text) = doctor(true, "[kinds.x]\ncommand = [\"no-such-program\"]\n").await;
        assert_eq!(exit, Exit::Broken);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["ok"], false);
        let last = report["checks"].as_array().unwrap().last().unwrap();
        insta::assert_json_snapshot!(last, @r#"
        {
          "check": "program",
          "verdict": "bad",
          "detail": "no-such-program of kind x is not in PATH",
          "advice": "its jobs will fail: install the program, or configure its path"
        }
        "#);
    }
}
