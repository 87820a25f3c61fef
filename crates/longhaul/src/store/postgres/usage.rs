//! What finished jobs used: added by whatever ends them, folded into sums by every replica.

use serde_json::{Value, json};

use super::columns::{Columns, int, limit, millis};
use super::error::Trouble;
use super::{Inner, sql};
use crate::job::{
    Job, Name, TenantId, Timestamp, Tokens, USAGE_RETENTION, Usage, UsageRow, hour_of,
};

impl Inner {
    pub(super) async fn try_usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, Trouble> {
        let (from, to) = (hour_of(from).as_millis(), to.as_millis());
        let mut connection = self.database.connection_of(tenant).await?;
        let rows = connection.query(sql::USAGE, &[&tenant.as_str(), &from, &to]).await?;
        rows.iter().map(read).collect()
    }

    /// Folds what was added into the sums, and forgets what is kept no longer; how many additions.
    pub(super) async fn try_roll_up_usage(&self, count: usize) -> Result<usize, Trouble> {
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::ROLL_UP_USAGE, &[&limit(count)]).await?;
        let before = self.clock.now().as_millis().saturating_sub(millis(USAGE_RETENTION));
        connection.query(sql::FORGET_USAGE, &[&before, &limit(count)]).await?;
        let folded = rows.first().map_or(Ok(0), |row| Columns::of(row).count())?;
        Ok(usize::try_from(folded).unwrap_or(usize::MAX))
    }
}

/// In the order of `usage.sql`.
fn read(row: &tokio_postgres::Row) -> Result<UsageRow, Trouble> {
    let mut columns = Columns::of(row);
    Ok(UsageRow {
        hour: columns.at()?,
        kind: columns.text(|text| Name::new(text).ok())?,
        key: Some(columns.get::<String>()?).filter(|key| !key.is_empty()),
        usage: Usage {
            jobs: columns.count()?,
            run_ms: columns.count()?,
            payload_bytes: columns.count()?,
            steps: columns.count()?,
            tokens: Tokens { prompt: columns.count()?, completion: columns.count()? },
        },
    })
}

/// The columns of a row by their names.
pub(super) fn columns(tenant: &TenantId, row: &UsageRow) -> Value {
    let UsageRow { hour, kind, key, usage } = row;
    json!({
        "tenant_id": tenant.as_str(),
        "hour": hour.as_millis(),
        "kind": kind.as_str(),
        "key_id": key.as_deref().unwrap_or_default(),
        "jobs": int(usage.jobs),
        "run_ms": int(usage.run_ms),
        "payload_bytes": int(usage.payload_bytes),
        "steps": int(usage.steps),
        "prompt_tokens": int(usage.tokens.prompt),
        "completion_tokens": int(usage.tokens.completion),
    })
}

/// The tokens alone of what a job used.
pub(super) fn tokens(job: &Job, key: Option<&str>, tokens: Tokens) -> Value {
    let row = UsageRow {
        hour: hour_of(job.completed_at.unwrap_or(job.created_at)),
        kind: job.kind.clone(),
        key: key.map(ToOwned::to_owned),
        usage: Usage { tokens, ..Usage::default() },
    };
    columns(&job.tenant, &row)
}

/// What the ends of jobs add, by column; nothing for those that go on.
#[derive(Default)]
pub(super) struct Metered {
    pub(super) firsts: Vec<bool>,
    pub(super) run_ms: Vec<i64>,
    pub(super) steps: Vec<i64>,
}

impl Metered {
    pub(super) fn push(&mut self, usage: Option<Usage>) {
        // The payload's size is in the job's row, and tokens are added on their own.
        let Usage { jobs, run_ms, payload_bytes: _, steps, tokens: _ } = usage.unwrap_or_default();
        self.firsts.push(jobs > 0);
        self.run_ms.push(int(run_ms));
        self.steps.push(int(steps));
    }
}
