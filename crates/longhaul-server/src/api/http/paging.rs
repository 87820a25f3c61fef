//! Pages of lists.

use crate::api::http::params::{Pairs, bad, twice, unknown, whole};
use crate::problem::Problem;

const LIMIT_DEFAULT: usize = 100;
pub(crate) const LIMIT_MAX: usize = 1_000;

/// Where a page begins, how long it is, and what else was asked.
pub(crate) struct Asked {
    pub(crate) cursor: Option<String>,
    pub(crate) limit: usize,
    others: Vec<(&'static str, Option<String>)>,
}

impl Asked {
    /// Reads `limit`, `cursor` and the parameters named in `others`, each at most once.
    pub(crate) fn of(query: Pairs, others: &[&'static str]) -> Result<Self, Problem> {
        let mut known = vec![("limit", None), ("cursor", None)];
        known.extend(others.iter().map(|name| (*name, None)));
        for (name, value) in query.0 {
            let Some((name, place)) = known.iter_mut().find(|(known, _)| *known == name) else {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                return Err(unknown(&name, &names));
            };
            if place.replace(value).is_some() {
                return Err(twice(name));
            }
        }
        let mut asked = Self { cursor: None, limit: LIMIT_DEFAULT, others: known };
        asked.cursor = asked.take("cursor");
        if let Some(text) = asked.take("limit") {
            let limit = whole(&text).and_then(|limit| usize::try_from(limit).ok());
            let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
            asked.limit =
                limit.ok_or_else(|| bad(format_args!("limit must be from 1 to {LIMIT_MAX}")))?;
        }
        Ok(asked)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let found = self.others.iter_mut().find(|(known, _)| *known == name);
        found.and_then(|(_, value)| value.take())
    }
}

/// Of up to one item more than a page has: where the next one begins.
pub(crate) fn next<T>(
    items: &mut Vec<T>,
    limit: usize,
    cursor: impl FnOnce(&T) -> String,
) -> Option<String> {
    let more = items.len() > limit;
    items.truncate(limit);
    items.last().filter(|_| more).map(cursor)
}
