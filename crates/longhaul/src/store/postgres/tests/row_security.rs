//! Row-level security: statements without a tenant condition, run the way reads and controls run.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Waker};

use tokio_postgres::SimpleQueryMessage;

use super::{connect, database};
use crate::clock::Clock;
use crate::job::TenantId;
use crate::store::postgres::connection::error::to_store_error;
use crate::store::postgres::{PostgresStore, schema::row_security, sql};

/// Tables without tenants' rows, which no tenant can read.
const SHARED: [&str; 5] =
    ["billing_events", "endpoint_changes", "limit_counters", "migrations", "replicas"];

struct House {
    store: PostgresStore,
    url: String,
    owner: tokio_postgres::Client,
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

impl House {
    async fn new() -> Self {
        let url = database().await;
        let store = PostgresStore::open(&url, Clock::system()).await.unwrap();
        let owner = connect(&url).await;
        Self { store, url, owner }
    }

    /// Inserts a row into every table for each of two tenants, with any value that its columns accept.
    async fn furnish(&self) -> Vec<(String, String)> {
        let tables = self.tables().await;
        for (table, key) in &tables {
            let needed = "SELECT column_name::text, data_type::text FROM information_schema.columns
                WHERE table_schema = 'longhaul' AND table_name = $1 AND is_nullable = 'NO'
                    AND column_default IS NULL AND is_identity = 'NO' AND column_name <> $2";
            let rows = self.owner.query(needed, &[table, key]).await.unwrap();
            let (mut names, mut values) = (String::new(), String::new());
            for row in &rows {
                names = names + ", " + row.get::<_, &str>(0);
                values += match row.get(1) {
                    "text" => ", 'x'",
                    "bytea" => ", ''",
                    "jsonb" => ", '{}'",
                    "boolean" => ", false",
                    "bigint" | "integer" => ", 1",
                    other => panic!("say what a column of {other} can hold"),
                };
            }
            for own in ["one", "two"] {
                let values = if table == "api_keys" || table == "audit" {
                    values.replace("'x'", &format!("'{own}'"))
                } else {
                    values.clone()
                };
                let insert =
                    format!("INSERT INTO longhaul.{table} ({key}{names}) VALUES ('{own}'{values})");
                self.owner.batch_execute(&insert).await.unwrap();
            }
        }
        tables
    }

    /// Returns all tables with tenants' rows, and the column that contains the tenant.
    ///
    /// A table that is not listed as shared must have row-level security.
    async fn tables(&self) -> Vec<(String, String)> {
        let all = "SELECT tables.table_name::text, coalesce(columns.column_name, 'id')::text
            FROM information_schema.tables
            LEFT JOIN information_schema.columns
                ON columns.table_schema = 'longhaul' AND columns.table_name = tables.table_name
                AND columns.column_name = 'tenant_id'
            WHERE tables.table_schema = 'longhaul' AND tables.table_type = 'BASE TABLE'";
        let rows = self.owner.query(all, &[]).await.unwrap();
        let tables = rows.iter().map(|row| (row.get(0), row.get(1)));
        tables.filter(|(table, _): &(String, _)| !SHARED.contains(&&**table)).collect()
    }

    /// Creates a role that runs the service and owns nothing.
    async fn replica(&self) -> String {
        let role = self.role("SELECT, INSERT, UPDATE, DELETE").await;
        // Like the owner's next start.
        let let_in = format!("SELECT longhaul.grant_replica('{role}')");
        self.owner.batch_execute(&let_in).await.unwrap();
        role
    }

    async fn role(&self, privileges: &str) -> String {
        let role = format!("role_{:016x}", rand::random::<u64>());
        let grant = format!(
            "CREATE ROLE {role} LOGIN;
             GRANT USAGE ON SCHEMA longhaul TO {role};
             GRANT {privileges} ON ALL TABLES IN SCHEMA longhaul TO {role}"
        );
        self.owner.batch_execute(&grant).await.unwrap();
        role
    }

    async fn forget(&self, role: &str) {
        let leave = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        self.owner.batch_execute(&leave).await.unwrap();
    }

    /// Returns the index conditions of a statement's plan, in a transaction that begins like this.
    async fn conditions(&self, begin: &str, sql: &str) -> Result<Vec<String>, String> {
        let params = self.owner.prepare(sql).await.unwrap().params().len();
        let params = vec!["NULL"; params].join(", ");
        let params = if params.is_empty() { params } else { format!("({params})") };
        let prepared = self.owner.batch_execute(&format!("{begin}; PREPARE asked AS {sql}")).await;
        prepared.unwrap();
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE asked {params}");
        let plan = self.owner.simple_query(&explain).await;
        self.owner.batch_execute("ROLLBACK; DEALLOCATE ALL").await.unwrap();
        let plan = plan.map_err(|error| error.to_string())?;
        let lines = plan.iter().filter_map(|message| {
            let SimpleQueryMessage::Row(row) = message else { return None };
            row.get(0)
        });
        let conditions = lines.map(str::trim).filter(|line| line.starts_with("Index Cond"));
        Ok(conditions.map(str::to_owned).collect())
    }

    /// Runs a statement as a tenant, over the same path as reads.
    async fn ask(&self, own: &str, sql: String) -> Result<Vec<String>, String> {
        let sql: &'static str = Box::leak(sql.into_boxed_str());
        let database = &self.store.inner.database;
        let mut connection = database.tenant_connection(&tenant(own)).await.unwrap();
        let asked = connection.query(sql, &[]).await;
        let rows = asked.map_err(|error| to_store_error(error).to_string())?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

#[tokio::test]
async fn statement_that_forgets_the_tenant_sees_only_its_own_rows_in_every_table() {
    let house = House::new().await;
    let tables = house.furnish().await;
    assert!(tables.len() >= 15, "{tables:?}");
    for (table, key) in &tables {
        let of_all = format!("SELECT DISTINCT {key} FROM longhaul.{table} ORDER BY 1");
        let all = house.owner.query(&of_all, &[]).await.unwrap();
        assert_eq!(all.len(), 2, "the owner sees both in {table}");
        for own in ["one", "two"] {
            let seen = house.ask(own, of_all.clone()).await;
            if table == "tenants" {
                assert!(seen.as_ref().is_err_and(|said| said.contains("(42501)")), "{seen:?}");
            } else {
                assert_eq!(seen, Ok(vec![own.to_owned()]), "{table}");
            }
        }
        assert_eq!(house.ask("nobody", of_all).await.unwrap_or_default(), [""; 0], "{table}");
    }
    for view in ["records", "entries"] {
        let of_all = format!("SELECT tenant_id FROM longhaul.{view}");
        assert_eq!(house.ask("one", of_all).await, Ok(vec!["one".to_owned()]), "{view}");
    }
    for table in SHARED {
        let refused = house.ask("one", format!("SELECT 'x' FROM longhaul.{table}")).await;
        assert!(refused.as_ref().is_err_and(|said| said.contains("(42501)")), "{refused:?}");
    }
}

#[tokio::test]
async fn statement_that_forgets_the_tenant_writes_only_its_own_rows() {
    let house = House::new().await;
    house.furnish().await;
    for write in [
        "UPDATE longhaul.jobs SET priority = priority + 1 RETURNING tenant_id",
        "UPDATE longhaul.blobs SET wrapped_key = NULL RETURNING tenant_id",
        "DELETE FROM longhaul.ready RETURNING tenant_id",
        "DELETE FROM longhaul.jobs RETURNING tenant_id",
    ] {
        assert_eq!(house.ask("one", write.to_owned()).await, Ok(vec!["one".to_owned()]), "{write}");
    }
    for write in [
        "INSERT INTO longhaul.paused_queues (tenant_id, name) VALUES ('two', 'emails') RETURNING name",
        "UPDATE longhaul.lanes SET tenant_id = 'two', queue = 'other' RETURNING tenant_id",
        "DELETE FROM longhaul.usage RETURNING tenant_id",
        "SELECT set_config('role', 'none', true) FROM longhaul.migrations",
    ] {
        let refused = house.ask("one", write.to_owned()).await;
        assert!(
            refused.as_ref().is_err_and(|said| said.contains("(42501)")),
            "{write} {refused:?}"
        );
    }
    // None of its settings outlast the transaction.
    let free = house.owner.query("SELECT FROM longhaul.jobs", &[]).await.unwrap();
    assert_eq!(free.len(), 1, "the other tenant's job is left");
}

#[tokio::test]
async fn role_that_was_granted_everything_there_is_to_read_sees_nothing() {
    let house = House::new().await;
    let tables = house.furnish().await;
    let role = house.role("SELECT").await;
    let reader = connect(&house.url.replace("longhaul@", &format!("{role}@"))).await;
    // Setting a tenant has no effect: it applies to the role `longhaul_tenant` only.
    reader.batch_execute("SET longhaul.tenant = 'one'").await.unwrap();
    let tables =
        tables.iter().map(|(table, _)| &**table).chain(["records", "entries", "shared_jobs"]);
    for table in tables {
        let seen = reader.query(&format!("SELECT FROM longhaul.{table}"), &[]).await.unwrap();
        assert_eq!(seen.len(), 0, "{table}");
    }
    house.forget(&role).await;
}

/// Under a policy only leakproof operators may be evaluated first, so the planner may choose other plans.
#[tokio::test]
async fn statements_use_the_same_indexes_whoever_runs_them() {
    let house = House::new().await;
    let role = house.replica().await;
    let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
        SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off";
    house.owner.batch_execute(settings).await.unwrap();
    let as_replica = format!("BEGIN; SET LOCAL ROLE {role}");
    let as_tenant = row_security::begin("BEGIN", &tenant("one"));
    let mut of_tenants = 0;
    for (name, sql) in sql::ALL {
        if !sql.contains("longhaul.") || sql.contains("CREATE ") || *name == "submit/submit" {
            continue;
        }
        let owner = house.conditions("BEGIN", sql).await.unwrap();
        assert_eq!(house.conditions(&as_replica, sql).await.unwrap(), owner, "{name}");
        // Statements on tables without tenants' rows never run as a tenant.
        if let Ok(own) = house.conditions(&as_tenant, sql).await {
            of_tenants += 1;
            assert_eq!(own, owner, "{name}");
        }
    }
    assert!(of_tenants >= 30, "{of_tenants}");
    house.forget(&role).await;
}

/// A caller that disconnects must not leave a transaction behind that restricts the next caller to one
/// tenant.
#[tokio::test]
async fn read_that_nobody_waits_for_any_more_leaves_nothing_behind() {
    let url = database().await;
    let store = PostgresStore::open(&format!("{url}?pool_max=2"), Clock::system()).await.unwrap();
    let database = &store.inner.database;
    let whoami =
        "SELECT current_user::text || coalesce(current_setting('longhaul.tenant', true), ''),
        now()::text, pg_backend_pid()";
    let mut backends = BTreeSet::new();
    for _ in 0..20 {
        let mut connection = database.tenant_connection(&tenant("one")).await.unwrap();
        // The first call prepares the statement; after that, one poll sends everything.
        connection.query(sql::QUEUES, &[&"one", &0_i64]).await.unwrap();
        {
            let mut read = pin!(connection.query(sql::QUEUES, &[&"one", &0_i64]));
            assert!(read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(connection);
        let mut next = database.connection().await.unwrap();
        let [one, other] = [next.query(whoami, &[]).await, next.query(whoami, &[]).await];
        let (one, other) = (&one.unwrap()[0], &other.unwrap()[0]);
        assert_eq!(one.get::<_, &str>(0), "longhaul");
        assert_ne!(one.get::<_, &str>(1), other.get::<_, &str>(1), "a transaction is open");
        backends.insert(one.get::<_, i32>(2));
    }
    assert!(backends.len() <= 2, "connections were given up: {backends:?}");
}
