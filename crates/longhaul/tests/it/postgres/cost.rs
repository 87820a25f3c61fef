//! Cost of calls, in blocks of the database that they touch.

mod foreign_ids;
mod vacuum;

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::Clock;
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;

use super::database::TestDatabase;
use super::wait::until;

/// Disables autovacuum for all tables. The counts of touched blocks include its own: between two of them it
/// would add whole tables.
const NO_AUTOVACUUM: &str = "
    DO $$
    DECLARE name regclass;
    BEGIN
        FOR name IN
            SELECT oid FROM pg_class WHERE relnamespace = 'longhaul'::regnamespace AND relkind = 'r'
        LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
        END LOOP;
    END $$";

/// Number of blocks touched so far, by table.
pub(super) type TouchedBlocks = BTreeMap<String, i64>;

/// A database whose touched blocks are only those of calls that the test makes.
pub(super) struct MeasuredDatabase {
    pub(super) database: TestDatabase,
    pub(super) onlooker: tokio_postgres::Client,
    pub(super) clock: Clock,
}

impl MeasuredDatabase {
    pub(super) async fn new() -> Self {
        let database = TestDatabase::create().await;
        let onlooker = database.connect().await;
        let measured = Self { database, onlooker, clock: StoreHarness::clock() };
        drop(measured.open().await);
        measured.onlooker.batch_execute(NO_AUTOVACUUM).await.unwrap();
        measured
    }

    /// Opens a new store on the database.
    pub(super) async fn open(&self) -> StoreHarness {
        // Each harness derives its ids from the time of its creation.
        self.clock.advance(Duration::from_secs(1));
        let store = PostgresStore::open(&self.database.url(), self.clock.clone()).await.unwrap();
        StoreHarness::new(store, self.clock.clone())
    }

    /// Runs `work` on a new store and returns the blocks that it touched. Postgres sessions report
    /// their counts when they end, so the store serves only this call.
    pub(super) async fn touched_by(&self, work: impl AsyncFnOnce(&StoreHarness)) -> TouchedBlocks {
        self.all_gone().await;
        let before = self.touched().await;
        let bench = self.open().await;
        work(&bench).await;
        drop(bench);
        self.all_gone().await;
        let mut after = self.touched().await;
        for (table, blocks) in &mut after {
            *blocks -= before.get(table).copied().unwrap_or_default();
        }
        after
    }

    async fn touched(&self) -> TouchedBlocks {
        let sql = "SELECT relname::text, (coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0)
                + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::bigint
            FROM pg_statio_user_tables WHERE schemaname = 'longhaul'";
        let rows = self.onlooker.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Waits until all of the stores' sessions have ended.
    pub(super) async fn all_gone(&self) {
        until("the store's connections to end", async || {
            let sql = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'longhaul'";
            let left: i64 = self.onlooker.query_one(sql, &[]).await.unwrap().get(0);
            (left == 0).then_some(())
        })
        .await;
    }
}
