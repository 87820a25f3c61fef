//! Tables whose rows are copied as they are: accounts, endpoints, the audit log, usage, blobs, and what else the
//! schema has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use longhaul::TenantId;
use longhaul::blob::{JobKey, Keyring};
use longhaul::job::EventFilter;
use longhaul::store::accounts::{
    Actor, ApiKeyStore as _, AuditEntry, AuditStore as _, KeyDigest, NewKey, Scopes, Tenant,
    TenantStore as _,
};
use longhaul::store::conformance::StoreHarness;
use longhaul::store::endpoints::{Endpoint, Endpoints as _};
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{JobStore as _, NewBlob, NewJob, WrappedKey};
use longhaul::transfer::{
    JOB_TABLES, LEFT_OUT, ServerKeyUses, TableDifference, TransferError, TransferStage,
    sqlite_to_postgres,
};
use serde_json::{Value, json};

use super::{Move, accept, blob, maker};

/// Tables that only Postgres has and that the copy leaves as they are, each with the reason.
const TARGET_ONLY: [(&str, &str); 7] = [
    ("endpoint_changes", "a version by which replicas notice changes of endpoints"),
    ("incoming", "the way of copied pending jobs into the queue"),
    ("lanes", "cursors of the queue"),
    ("migrations", "the version of this schema"),
    ("output_chunks", "output of running attempts"),
    ("shared_leases", "running jobs return to their queues"),
    ("usage_deltas", "usage that Postgres sums up later"),
];

/// Columns that are truth values in Postgres.
const FLAGS: [&str; 2] = ["enabled", "full_results"];
/// Columns that get a text with NUL, which Postgres cannot store.
const WITH_NUL: [&str; 3] = ["description", "detail", "failure"];

/// Creates a database file, changes it, and returns a transfer from it.
async fn move_of_file(change: impl FnOnce(&rusqlite::Connection)) -> (Move, tempfile::TempDir) {
    let (folder, clock) = (tempfile::tempdir().unwrap(), StoreHarness::clock());
    let path = folder.path().join("jobs.db");
    drop(SqliteStore::open(&path, clock.clone()).unwrap());
    let file = rusqlite::Connection::open(&path).unwrap();
    change(&file);
    file.close().unwrap();
    let from = SqliteStore::open(&path, clock.clone()).unwrap();
    (Move::of(from, clock).await, folder)
}

fn texts(file: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = file.prepare(sql).unwrap();
    let texts = statement.query_map([], |row| row.get(0)).unwrap();
    texts.collect::<Result<_, _>>().unwrap()
}

fn names(tables: &[(&'static str, &str)]) -> BTreeSet<String> {
    tables.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// A new table must be copied, or be declared with the reason why it is not.
#[tokio::test(flavor = "multi_thread")]
async fn every_table_is_copied_or_declared_left_out() {
    let mut source = Vec::new();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let (here, _folder) = move_of_file(|file| source = texts(file, tables)).await;
    let copied = here.copy().await.unwrap();
    let mut declared: BTreeSet<String> = JOB_TABLES.map(str::to_owned).into();
    declared.extend(copied.tables.iter().map(|table| table.name.to_owned()));
    declared.extend(names(&LEFT_OUT));
    assert_eq!(declared, source.into_iter().collect());

    let tables = "SELECT table_name::text FROM information_schema.tables
        WHERE table_schema = 'longhaul' AND table_type = 'BASE TABLE'";
    let target = here.client.query(tables, &[]).await.unwrap();
    let target: BTreeSet<String> = target.iter().map(|row| row.get(0)).collect();
    let only: BTreeSet<String> = target.difference(&declared).cloned().collect();
    assert_eq!(only, names(&TARGET_ONLY));
}

/// Inserts a row into a table, with another value in each column. Returns what Postgres should have.
fn fill(file: &rusqlite::Connection, table: &str, origin: &str) -> BTreeMap<String, Value> {
    let sql = format!("SELECT name, type FROM pragma_table_info('{table}')");
    let mut columns = file.prepare(&sql).unwrap();
    let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let columns: Vec<(String, String)> = columns.collect::<Result<_, _>>().unwrap();
    let (mut expected, mut values): (BTreeMap<_, Value>, Vec<rusqlite::types::Value>) =
        (BTreeMap::new(), Vec::new());
    for (number, (column, kind)) in columns.iter().enumerate() {
        let number = i64::try_from(number).unwrap();
        let (value, expect) = match kind.as_str() {
            _ if FLAGS.contains(&column.as_str()) => (1.into(), json!(true)),
            // No job runs after the copy.
            _ if column == "running" => (7.into(), json!(0)),
            "INTEGER" => ((100 + number).into(), json!(100 + number)),
            "TEXT" if WITH_NUL.contains(&column.as_str()) => {
                ("a\0 ä".to_owned().into(), json!("a\u{fffd} ä"))
            }
            "TEXT" => (format!("{table} {column}").into(), json!(format!("{table} {column}"))),
            "BLOB" => {
                let last = u8::try_from(number).unwrap();
                (vec![0, 255, last].into(), json!(format!("\\x00ff{last:02x}")))
            }
            kind => panic!("{table}.{column} has the type {kind}"),
        };
        values.push(value);
        expected.insert(column.clone(), expect);
    }
    if table == "usage" {
        expected.insert("origin".to_owned(), json!(origin));
    }
    let places = vec!["?"; values.len()].join(", ");
    let insert = format!("INSERT INTO {table} VALUES ({places})");
    assert_eq!(file.execute(&insert, rusqlite::params_from_iter(values)).unwrap(), 1);
    expected
}

/// Returns a transfer from a file with one row in each copied table, and the rows that Postgres should have.
async fn move_of_full_tables()
-> (Move, tempfile::TempDir, BTreeMap<String, BTreeMap<String, Value>>) {
    let empty = Move::new().await.copy().await.unwrap();
    let mut expected = BTreeMap::new();
    let (here, folder) = move_of_file(|file| {
        let origin = texts(file, "SELECT id FROM origin").remove(0);
        for table in empty.tables {
            assert_eq!(table.rows, 0, "{}", table.name);
            expected.insert(table.name.to_owned(), fill(file, table.name, &origin));
        }
    })
    .await;
    (here, folder, expected)
}

async fn only_row(here: &Move, table: &str) -> BTreeMap<String, Value> {
    let sql = format!("SELECT row_to_json(row)::text FROM longhaul.{table} AS row");
    let row: String = here.client.query_one(&sql, &[]).await.unwrap().get(0);
    serde_json::from_str(&row).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_copies_every_column_of_every_table() {
    let (here, _folder, expected) = move_of_full_tables().await;
    let copied = here.copy().await.unwrap();
    assert_eq!(copied.tables.len(), expected.len());
    for (table, expected) in &expected {
        assert_eq!(&only_row(&here, table).await, expected, "{table}");
    }
    for table in &copied.tables {
        assert_eq!((table.rows, table.sha256.len()), (1, 64), "{}", table.name);
    }
    assert_eq!(here.copy().await.unwrap().tables, copied.tables);
}

fn other_data(
    copied: Result<longhaul::transfer::TransferSummary, TransferError>,
) -> Vec<TableDifference> {
    match copied {
        Err(TransferError::OtherData { tables }) => tables,
        copied => panic!("{copied:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_rejects_a_target_whose_tables_differ() {
    let (here, _folder, expected) = move_of_full_tables().await;
    here.copy().await.unwrap();
    for (table, row) in &expected {
        here.client
            .batch_execute(&format!("CREATE TABLE kept AS TABLE longhaul.{table}"))
            .await
            .unwrap();
        let key = ["id", "name"].into_iter().find(|column| row.contains_key(*column));
        let key = key.unwrap_or("kind");
        // The same row under another key, with which it is a further row, and then the only one.
        let further = format!(
            "UPDATE kept SET {key} = 'other'; INSERT INTO longhaul.{table} TABLE kept;
             UPDATE kept SET {key} = {}",
            row[key].to_string().replace('"', "'")
        );
        here.client.batch_execute(&further).await.unwrap();
        let found = other_data(here.copy().await);
        let found: Vec<_> = found.iter().map(|found| (found.name, found.foreign)).collect();
        assert_eq!(found, [(table.as_str(), 1)]);
        let undo = format!("TRUNCATE longhaul.{table}; INSERT INTO longhaul.{table} TABLE kept");
        here.client.batch_execute(&undo).await.unwrap();
        here.copy().await.unwrap();
        for (column, value) in row {
            let is_key = ["tenant_id", "scope", "hour", "kind", "key_id", "path", "origin", key]
                .contains(&column.as_str());
            if is_key {
                continue;
            }
            let other = match value {
                Value::Bool(_) => "false",
                Value::Number(_) => "9",
                Value::String(text) if text.starts_with("\\x") => "'\\x01'",
                Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => "'other'",
            };
            here.tamper(&format!("UPDATE longhaul.{table} SET {column} = {other}")).await;
            let found = other_data(here.copy().await);
            let found: Vec<_> = found.iter().map(|found| (found.name, found.differing)).collect();
            assert_eq!(found, [(table.as_str(), 1)], "{column}");
            here.client.batch_execute(&undo).await.unwrap();
        }
        here.client.batch_execute("DROP TABLE kept").await.unwrap();
    }
}

fn new_key(id: &str, server_key: &str) -> NewKey {
    NewKey {
        id: id.to_owned(),
        tenant: TenantId::default(),
        name: String::new(),
        scopes: Scopes::all(),
        digest: KeyDigest { server_key: server_key.to_owned(), bytes: [7; 32] },
        expires_at: None,
        requests_per_s: None,
    }
}

fn entry(here: &Move, id: &str) -> AuditEntry {
    AuditEntry {
        id: id.to_owned(),
        at: here.clock.now(),
        tenant: TenantId::default(),
        actor: Actor::Local.to_string(),
        action: "key.create".to_owned(),
        target: id.to_owned(),
        detail: String::new(),
        request_id: String::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_rejects_a_target_with_other_accounts_and_writes_nothing() {
    let here = Move::new().await;
    accept(&here.from, maker(&here.clock).job()).await;
    here.from.create_first_key(&new_key("ours", "k"), &entry(&here, "1")).await.unwrap();
    here.clock.advance(std::time::Duration::from_millis(1));
    here.to.create_first_key(&new_key("theirs", "k"), &entry(&here, "2")).await.unwrap();
    let copied = here.copy().await;
    let error = copied.as_ref().unwrap_err().to_string();
    assert!(error.contains("api_keys: 1 only in the target, for example theirs"), "{error}");
    let found: Vec<_> = other_data(copied).iter().map(|table| table.name).collect();
    assert_eq!(found, ["tenants", "api_keys", "audit"]);
    assert!(here.to.key("ours").await.unwrap().is_none());
    let jobs = here.to.jobs(&TenantId::default(), &<_>::default(), &page()).await.unwrap();
    assert!(jobs.jobs.is_empty());
}

fn page() -> longhaul::store::PageRequest {
    longhaul::store::PageRequest::new(10, None)
}

/// Tables of more than one page, of which an interrupted transfer has copied some rows.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_transfer_copies_the_missing_rows_of_a_table() {
    let here = Move::new().await;
    let entries: Vec<AuditEntry> =
        (0..3_500).map(|number| entry(&here, &format!("{number:05}"))).collect();
    here.from.record_audit(&entries).await.unwrap();
    accept(&here.from, maker(&here.clock).job()).await;
    let stopped = sqlite_to_postgres(&here.from, &here.to, |_| ControlFlow::Break(())).await;
    assert!(matches!(stopped, Err(TransferError::Interrupted)), "{stopped:?}");
    for some in ["id < '01200'", "id > '02700'", "id LIKE '%3'"] {
        let delete = format!("DELETE FROM longhaul.audit WHERE {some}");
        here.client.execute(&delete, &[]).await.unwrap();
    }
    let copied = here.copy().await.unwrap();
    assert_eq!(super::rows_of(&copied, "audit"), 3_500);
    let count = here.client.query_one("SELECT count(*) FROM longhaul.audit", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 3_500);

    // Once there are jobs, the tables were complete.
    here.tamper("DELETE FROM longhaul.audit WHERE id = '00000'").await;
    let found = other_data(here.copy().await);
    assert_eq!((found[0].name, found[0].missing, found[0].rows[0].as_str()), ("audit", 1, "00000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_reports_rows_that_change_before_the_check() {
    let here = Move::new().await;
    here.from.create_first_key(&new_key("ours", "k"), &entry(&here, "1")).await.unwrap();
    accept(&here.from, maker(&here.clock).job()).await;
    for (change, table) in [
        ("DELETE FROM longhaul.tenants", "tenants"),
        ("UPDATE longhaul.api_keys SET revoked_at = 1", "api_keys"),
        ("INSERT INTO longhaul.billing_events VALUES ('event', 1)", "billing_events"),
    ] {
        let copied = sqlite_to_postgres(&here.from, &here.to, |progress| {
            if progress.stage == TransferStage::Checking {
                let changed = here.tamper(change);
                tokio::task::block_in_place(|| {
                    tokio::runtime::Handle::current().block_on(changed);
                });
            }
            ControlFlow::Continue(())
        })
        .await;
        let Err(TransferError::RowsDiffer { tables }) = copied else { panic!("{copied:?}") };
        let found: Vec<_> = tables.iter().map(|found| found.name).collect();
        assert_eq!(found, [table]);
        here.client
            .batch_execute(
                "TRUNCATE longhaul.tenants, longhaul.api_keys, longhaul.audit,
                 longhaul.billing_events, longhaul.jobs, longhaul.incoming, longhaul.ready",
            )
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_names_the_server_keys_that_the_data_needs() {
    let here = Move::new().await;
    let (keys, wrong) = (Keyring::generate(), Keyring::generate());
    let tenant = Tenant::new(TenantId::default(), "", here.clock.now());
    here.from.create_tenant(&tenant, &entry(&here, "1")).await.unwrap();
    for (id, by) in [("a", &keys), ("b", &keys), ("c", &wrong), ("d", &wrong)] {
        here.from.create_key(&new_key(id, by.current_id()), &entry(&here, id)).await.unwrap();
    }
    here.from.revoke_key("b", &entry(&here, "2")).await.unwrap();
    let endpoint = Endpoint {
        tenant: TenantId::default(),
        id: "e".to_owned(),
        url: "https://example.com".to_owned(),
        description: String::new(),
        events: EventFilter::default(),
        full: false,
        enabled: true,
        disabled_reason: None,
        sealed_secret: keys.seal_text("whsec_a", b"context"),
        former_secret: None,
        created_at: here.clock.now(),
        changed_at: here.clock.now(),
    };
    here.from.create_endpoint(&endpoint, &entry(&here, "3")).await.unwrap();
    let key = WrappedKey(keys.wrap(&JobKey::generate(), b"context"));
    let payload = NewBlob { key, ..blob("default/payload") };
    let job = NewJob { payload: Some(payload), ..maker(&here.clock).job() };
    accept(&here.from, job).await;
    let copied = here.copy().await.unwrap();
    let mut uses: Vec<_> = copied.server_keys.into_iter().collect();
    uses.sort_by_key(|(id, _)| id != keys.current_id());
    let expected = [
        (keys.current_id().to_owned(), ServerKeyUses { api_keys: 1, endpoints: 1, blobs: 1 }),
        (wrong.current_id().to_owned(), ServerKeyUses { api_keys: 2, endpoints: 0, blobs: 0 }),
    ];
    assert_eq!(uses, expected);
}
