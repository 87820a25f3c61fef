//! Paging of lists.

use crate::api::http::params::{Pairs, bad, twice, unknown, whole};
use crate::problem::Result;

const LIMIT_DEFAULT: usize = 100;
pub(crate) const LIMIT_MAX: usize = 1_000;

/// Query parameters of a list: cursor, limit and filters.
pub(crate) struct PageQuery {
    pub(crate) cursor: Option<String>,
    pub(crate) limit: usize,
    filters: Vec<(&'static str, Option<String>)>,
}

impl PageQuery {
    /// Parses `limit`, `cursor` and the named filters, each at most once.
    pub(crate) fn parse(query: Pairs, filters: &[&'static str]) -> Result<Self> {
        let mut known = vec![("limit", None), ("cursor", None)];
        known.extend(filters.iter().map(|name| (*name, None)));
        for (name, value) in query.0 {
            let Some((name, slot)) = known.iter_mut().find(|(known, _)| *known == name) else {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                return Err(unknown(&name, &names));
            };
            if slot.replace(value).is_some() {
                return Err(twice(name));
            }
        }
        let mut query = Self { cursor: None, limit: LIMIT_DEFAULT, filters: known };
        query.cursor = query.take("cursor");
        if let Some(text) = query.take("limit") {
            let limit = whole(&text).and_then(|limit| usize::try_from(limit).ok());
            let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
            query.limit =
                limit.ok_or_else(|| bad(format_args!("limit must be from 1 to {LIMIT_MAX}")))?;
        }
        Ok(query)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let found = self.filters.iter_mut().find(|(known, _)| *known == name);
        found.and_then(|(_, value)| value.take())
    }
}

/// Cuts a list of up to `limit + 1` items to a page and returns the cursor of the next page.
pub(crate) fn next<T>(
    items: &mut Vec<T>,
    limit: usize,
    cursor: impl FnOnce(&T) -> String,
) -> Option<String> {
    let more = items.len() > limit;
    items.truncate(limit);
    items.last().filter(|_| more).map(cursor)
}
