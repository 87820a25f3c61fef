//! One file for each command.

pub(super) mod accounts;
pub(super) mod completions;
pub(super) mod jobs;
pub(super) mod kinds;
pub(super) mod openapi;
pub(super) mod operations;
pub(super) mod queues;
#[cfg(feature = "render")]
pub(super) mod render;
pub(super) mod replicas;
pub(super) mod run_as;
pub(super) mod webhooks;

use longhaul_client::ClientError;

/// Fetches all pages of a list. `fetch` returns the items after a cursor and the next cursor.
async fn all_pages<T>(
    fetch: impl AsyncFn(Option<&str>) -> Result<(Vec<T>, Option<String>), ClientError>,
) -> Result<Vec<T>, ClientError> {
    let (mut items, mut cursor) = fetch(None).await?;
    while let Some(after) = cursor {
        let (page, next) = fetch(Some(&after)).await?;
        items.extend(page);
        cursor = next;
    }
    Ok(items)
}
