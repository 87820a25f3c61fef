//! Roll-up of usage: settlements insert deltas, replicas fold them into hourly totals.

use serde_json::{Value, json};

use crate::job::{Job, TenantId, Tokens, USAGE_RETENTION, Usage, UsageRow, hour_of};
use crate::store::postgres::connection::columns::{int, limit, millis};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::{Inner, sql};

impl Inner {
    /// Folds up to `count` deltas into the totals and deletes totals past their retention. Returns the
    /// number of deltas.
    pub(crate) async fn roll_up_usage(&self, count: usize) -> Result<usize, PgError> {
        let mut connection = self.database.connection().await?;
        let folded: Option<u32> = connection.first(sql::ROLL_UP_USAGE, &[&limit(count)]).await?;
        let before = self.clock.now().as_millis().saturating_sub(millis(USAGE_RETENTION));
        connection.query(sql::FORGET_USAGE, &[&before, &limit(count)]).await?;
        Ok(folded.unwrap_or_default() as usize)
    }
}

/// Returns a usage row as JSON, by column name.
pub(crate) fn usage_json(tenant: &TenantId, row: &UsageRow) -> Value {
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

/// Returns a usage row with the tokens of a job and nothing else.
pub(crate) fn tokens(job: &Job, key: Option<&str>, tokens: Tokens) -> Value {
    let row = UsageRow {
        hour: hour_of(job.completed_at.unwrap_or(job.created_at)),
        kind: job.kind.clone(),
        key: key.map(ToOwned::to_owned),
        usage: Usage { tokens, ..Usage::default() },
    };
    usage_json(&job.tenant, &row)
}
