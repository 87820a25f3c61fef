//! Helpers of several tests.

use longhaul::job::{TenantId, Timestamp, Usage};
use longhaul::store::Store;

/// Runs each case on both stores. The caller's module has a `Desk` with the constructors `sqlite` and `postgres`.
macro_rules! on_both_stores {
    ($($case:ident,)*) => {
        mod in_sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::Desk::sqlite()).await;
            })*
        }

        mod in_postgres {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::Desk::postgres().await).await;
            })*
        }
    };
}

pub(crate) use on_both_stores;

/// Returns the usage of the default tenant over all hours.
pub(crate) async fn total_usage(store: &dyn Store) -> Usage {
    let (from, to) = (Timestamp::from_millis(0), Timestamp::MAX);
    let mut sum = Usage::default();
    for row in store.usage(&TenantId::default(), from, to).await.unwrap() {
        sum += row.usage;
    }
    sum
}
