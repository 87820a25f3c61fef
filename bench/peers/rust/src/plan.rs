//! Command-line arguments: the scenario and its sizes.

use anyhow::Context as _;

pub struct Plan {
    pub peer: String,
    pub scenario: String,
    pub database: String,
    pub jobs: usize,
    /// Callers that submit at once.
    pub concurrency: usize,
    pub input_bytes: usize,
    /// Pause before and after the measured part, until a line arrives on stdin.
    pub marks: bool,
}

impl Plan {
    pub fn from_args(mut args: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut plan = Self {
            peer: args.next().context("PEER is missing")?,
            scenario: args.next().context("SCENARIO is missing")?,
            database: String::new(),
            jobs: 0,
            concurrency: 0,
            input_bytes: 0,
            marks: false,
        };
        while let Some(name) = args.next() {
            if name == "--marks" {
                plan.marks = true;
                continue;
            }
            let value = args.next().with_context(|| format!("{name} has no value"))?;
            match name.as_str() {
                "--database" => plan.database = value,
                "--jobs" => plan.jobs = value.parse().context(name)?,
                "--concurrency" => plan.concurrency = value.parse().context(name)?,
                "--input-bytes" => plan.input_bytes = value.parse().context(name)?,
                _ => anyhow::bail!("no option {name}"),
            }
        }
        anyhow::ensure!(!plan.database.is_empty(), "--database is missing");
        anyhow::ensure!(
            plan.jobs > 0 && plan.concurrency > 0,
            "--jobs and --concurrency: at least 1"
        );
        Ok(plan)
    }

    /// Prints a line and waits for one, so that the calling process can read counters of the system.
    pub fn mark(&self, point: &str) {
        if self.marks {
            println!("{{\"mark\":\"{point}\"}}");
            let _ = std::io::stdin().read_line(&mut String::new());
        }
    }

    /// Connections for submits: one a caller, up to where more of them gained nothing clear here.
    pub fn connections(&self) -> u32 {
        u32::try_from(self.concurrency).map_or(64, |callers| callers.clamp(16, 64))
    }
}
