//! The statements against a migrated database.

use crate::store::sqlite::connection::open;
use crate::store::sqlite::sql;

/// Creates a database with all indexes that claims may create.
fn database() -> rusqlite::Connection {
    let conn = open::open_memory().unwrap();
    conn.execute(sql::CREATE_QUEUE_INDEX, []).unwrap();
    conn
}

fn plan(sql: &str) -> String {
    let conn = database();
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut plan = String::new();
    while let Some(row) = rows.next().unwrap() {
        plan.push_str(&row.get::<_, String>(3).unwrap());
        plan.push('\n');
    }
    plan
}

#[test]
fn every_statement_prepares_and_opens_by_saying_why() {
    let conn = database();
    for (path, sql) in sql::ALL {
        assert!(sql.starts_with("-- "), "{path}");
        if let Err(error) = conn.prepare(sql) {
            panic!("{path}: {error}");
        }
    }
}

/// A seek that stops one column short scans all ready jobs of a tenant: a claim then took 27 ms with
/// 200,000 ready jobs.
#[test]
fn claims_seek_to_the_last_column_and_never_sort() {
    for (sql, seek) in [
        (sql::NEXT_TENANT, "ready_by_rank (kind=? AND tenant_id>?)"),
        (sql::READY_OF_TENANT, "ready_by_rank (kind=? AND tenant_id=? AND rank>?)"),
        (sql::NEXT_QUEUE, "ready_by_queue_and_rank (kind=? AND tenant_id=? AND queue>?)"),
        (
            sql::READY_OF_QUEUE,
            "ready_by_queue_and_rank (kind=? AND tenant_id=? AND queue=? AND rank>?)",
        ),
        (sql::PAUSE_JOBS, "ready_by_queue (tenant_id=? AND queue=?)"),
        (sql::RESUME_JOBS, "ready_by_queue (tenant_id=? AND queue=?)"),
        (sql::PROMOTE_DUE, "ready_scheduled (run_at<?)"),
        (sql::EXPIRED_JOBS, "finished_expiring (expires_at<?)"),
        (sql::COUNT_PENDING, "ready_by_queue (tenant_id=?)"),
    ] {
        let plan = plan(sql);
        assert!(plan.contains(seek), "{seek} is not in:\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}

#[test]
fn no_statement_scans_the_jobs() {
    for (path, sql) in sql::ALL {
        // An export reads everything while no other process has the file open, and so does the fence of a restored file.
        if path.ends_with("/count_jobs") || path.contains("/raise_") {
            continue;
        }
        let plan = plan(sql);
        let scans = plan.lines().any(|line| {
            ["jobs", "ready", "finished"].iter().any(|table| {
                let words: Vec<&str> = line.split_whitespace().collect();
                matches!(words.as_slice(), ["SCAN", name, ..] if name == table)
            })
        });
        assert!(!scans, "{path}:\n{plan}");
    }
}

#[test]
fn lists_come_in_order_without_sorting() {
    for (sql, index) in [
        (sql::LIST_BY_ID, "jobs_id"),
        (sql::LIST_PENDING, "SEARCH ready USING PRIMARY KEY"),
        (sql::LIST_FINISHED, "finished_by_status"),
        (sql::LIST_OF_PARENT, "jobs_of_parent"),
        (sql::LIST_END_BY_ID, "COVERING INDEX jobs_id"),
        (sql::LIST_END_PENDING, "SEARCH ready USING PRIMARY KEY"),
        (sql::LIST_END_FINISHED, "COVERING INDEX finished_by_status"),
        (sql::LIST_END_OF_PARENT, "COVERING INDEX jobs_of_parent"),
    ] {
        let plan = plan(sql);
        assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}

/// The statement for watched jobs sorts them, and finds each by its key.
#[test]
fn reads_of_single_and_watched_jobs_go_by_their_ids() {
    for sql in [sql::VERSIONS, sql::RECORD] {
        let plan = plan(sql);
        assert!(plan.contains("jobs_id (tenant_id=? AND id=?)"), "{plan}");
    }
}
