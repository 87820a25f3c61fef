//! Plans that were made for empty tables must also serve full ones, because a young database has no statistics.

use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;

use super::{connect, database};
use crate::clock::Clock;
use crate::store::postgres::connection::sessions::SESSION;
use crate::store::postgres::{PostgresStore, sql};

/// Tables that grow with the number of jobs.
const LARGE_TABLES: [&str; 3] = ["jobs", "ready", "finished"];
/// Statements that count jobs: all unfinished ones, of one tenant or of all, and pending ones up to a limit. The last ones
/// concern all jobs: a list of their ids, page by page, for a copy, and the higher epochs after a restore.
const COUNTS: [&str; 6] = [
    "queries/queues",
    "queries/queue_totals",
    "queries/count_pending",
    "transfer/export_job_ids",
    "maintenance/raise_finished_epochs",
    "maintenance/raise_job_epochs",
];

/// One node of a plan.
struct PlanNode<'a>(&'a Value);

impl<'a> PlanNode<'a> {
    fn text(&self, name: &str) -> &'a str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn children(&self) -> impl Iterator<Item = PlanNode<'a>> + use<'a> {
        self.0["Plans"].as_array().into_iter().flatten().map(PlanNode)
    }

    /// Returns true for a scan of a large table that is bounded by no more than its tenant.
    fn reads_a_tenant(&self) -> bool {
        let condition = self.text("Index Cond");
        let is_bounded = [
            "(id = ",
            "(id < ",
            "(queue = ",
            "(idempotency_key = ",
            "(parent_id = ",
            "(expires_at <",
        ];
        // The id comes after the status in the index of finished jobs.
        let skips_status = self.text("Relation Name") == "finished"
            && condition.contains("(id ")
            && !condition.contains("(status = ");
        LARGE_TABLES.contains(&self.text("Relation Name"))
            && self.text("Node Type").contains("Scan")
            && self.text("Node Type") != "Tid Scan"
            && (skips_status || !is_bounded.iter().any(|bound| condition.contains(bound)))
    }

    /// Returns true for a sort of rows that no limit bounds before.
    fn sorts_a_tenant(&self) -> bool {
        fn is_unbounded(node: &PlanNode<'_>) -> bool {
            node.text("Node Type") != "Limit"
                && (LARGE_TABLES.contains(&node.text("Relation Name"))
                    && !node.text("Index Cond").contains("(id = ")
                    || node.children().any(|child| is_unbounded(&child)))
        }
        self.text("Node Type") == "Sort" && self.children().any(|child| is_unbounded(&child))
    }

    /// Returns the types of all nodes below that cost too much.
    fn faults(&self) -> Vec<String> {
        let kind = self.text("Node Type");
        let is_fault = kind.contains("Bitmap") || self.reads_a_tenant() || self.sorts_a_tenant();
        let fault = is_fault
            .then(|| format!("{kind} {} {}", self.text("Relation Name"), self.text("Index Cond")));
        fault.into_iter().chain(self.children().flat_map(|child| child.faults())).collect()
    }
}

/// Returns the plan of a prepared statement, with `NULL` for its parameters.
async fn plan(client: &tokio_postgres::Client, statement: usize, params: usize) -> Value {
    let params = if params == 0 {
        String::new()
    } else {
        format!("({})", ["NULL"].repeat(params).join(","))
    };
    explain(client, &format!("EXPLAIN (FORMAT JSON) EXECUTE s{statement}{params}")).await
}

async fn explain(client: &tokio_postgres::Client, sql: &str) -> Value {
    let messages = client.simple_query(sql).await.unwrap();
    let row = messages.iter().find_map(|message| {
        if let SimpleQueryMessage::Row(row) = message { row.get(0) } else { None }
    });
    let plans: Value = serde_json::from_str(row.unwrap()).unwrap();
    plans[0]["Plan"].clone()
}

#[tokio::test]
async fn plans_of_an_empty_database_read_no_whole_tenant() {
    let url = database().await;
    let store = PostgresStore::open(&url, Clock::system()).await.unwrap();
    let client = connect(&url).await;
    client.batch_execute(NO_STATISTICS).await.unwrap();
    client.batch_execute(SESSION).await.unwrap();
    let statements =
        || sql::ALL.iter().enumerate().filter(|(_, (name, _))| !name.starts_with("schema/"));
    let mut params = Vec::new();
    for (number, (name, sql)) in statements() {
        client.batch_execute(&format!("PREPARE s{number} AS {sql}")).await.unwrap();
        params.push(client.prepare(sql).await.unwrap().params().len());
        // Makes the plan.
        let faults = PlanNode(&plan(&client, number, params[params.len() - 1]).await).faults();
        assert!(faults.is_empty() || COUNTS.contains(name), "{name} on empty tables: {faults:?}");
    }
    client.batch_execute(FILL).await.unwrap();
    for ((number, (name, _)), params) in statements().zip(params) {
        let faults = PlanNode(&plan(&client, number, params).await).faults();
        assert!(faults.is_empty() || COUNTS.contains(name), "{name} on full tables: {faults:?}");
    }
    // Each list reads about as many rows as it returns, in each status, and its end is found by reading as many.
    for (name, _) in sql::ALL.iter().filter(|(name, _)| name.starts_with("lists/")) {
        let number = sql::ALL.iter().position(|(other, _)| other == name).unwrap();
        let further = match *name {
            "lists/finished" | "lists/end_finished" => ", 'completed'",
            "lists/of_parent" => ", 'none', NULL",
            "lists/end_of_parent" => ", 'none'",
            _ => "",
        };
        let page =
            if name.starts_with("lists/end_") { "20" } else { "NULL, NULL, NULL, NULL, 20, ''" };
        let params = format!("'default', 'Z', {page}{further}");
        let explained = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE s{number}({params})");
        let read = rows_read(&PlanNode(&explain(&client, &explained).await));
        assert!(read <= 40.0, "{name} reads {read} rows");
    }
    drop(store);
}

/// Returns the most rows that one node returned or dropped.
fn rows_read(node: &PlanNode<'_>) -> f64 {
    let number = |name: &str| node.0[name].as_f64().unwrap_or_default();
    let rows = number("Actual Rows")
        + number("Rows Removed by Filter")
        + number("Rows Removed by Join Filter");
    node.children().map(|child| rows_read(&child)).fold(rows * number("Actual Loops"), f64::max)
}

/// Keeps statistics from arriving, which would make new plans.
const NO_STATISTICS: &str = "
    ALTER TABLE longhaul.jobs SET (autovacuum_enabled = off);
    ALTER TABLE longhaul.ready SET (autovacuum_enabled = off);
    ALTER TABLE longhaul.leases SET (autovacuum_enabled = off);
    ALTER TABLE longhaul.finished SET (autovacuum_enabled = off);
";

/// Inserts 20,000 jobs of one tenant, a third of them pending, running and completed each.
const FILL: &str = "
    INSERT INTO longhaul.jobs (
        created_at, run_at, retention_completed_ms, retention_failed_ms, version, epoch, priority, attempt,
        max_attempts, attempt_base, charge, tenant_id, id, kind, queue, labels, input
    )
    SELECT
        n, n, 0, 0, 1, 0, 0, 0, 3, 0, true, 'default', lpad(n::text, 26, '0'), 'demo', 'default', '{}', '{}'
    FROM generate_series(1, 20000) AS n;
    INSERT INTO longhaul.finished (
        version, epoch, completed_at, expires_at, steps, attempt, tenant_id, status, id
    )
    SELECT 3, 1, n, n, 0, 1, 'default', 'completed', lpad(n::text, 26, '0')
    FROM generate_series(3, 20000, 3) AS n;
    INSERT INTO longhaul.ready (run_at, priority, tenant_id, queue, kind, id)
    SELECT n, 0, 'default', 'default', 'demo', lpad(n::text, 26, '0')
    FROM generate_series(1, 20000, 3) AS n;
    INSERT INTO longhaul.leases (
        epoch, version, claimed_at, lease_until, started_at, claim, attempt, tenant_id, id, queue, replica
    )
    SELECT 1, 1, n, n, n, 1, 1, 'default', lpad(n::text, 26, '0'), 'default', 'replica-1'
    FROM generate_series(2, 20000, 3) AS n;
";
