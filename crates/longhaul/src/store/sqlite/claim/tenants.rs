//! Tenants with ready jobs, in the order of rotation.

use crate::store::fairness::ClaimCapacity;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// The tenants with ready jobs of the claimed kinds, each once, starting after one and wrapping around.
pub(crate) struct Tenants<'a> {
    tx: &'a Tx<'a>,
    start: String,
    wrapped: bool,
    kinds: Vec<KindCursor<'a>>,
}

/// The next tenant with ready jobs of one kind.
struct KindCursor<'a> {
    kind: &'a str,
    next: Option<String>,
}

impl<'a> Tenants<'a> {
    /// Starts with the tenant after `start`.
    pub(crate) fn after(
        tx: &'a Tx<'a>,
        start: &str,
        kinds: impl Iterator<Item = &'a str>,
    ) -> rusqlite::Result<Self> {
        let kinds = kinds.map(|kind| KindCursor { kind, next: None }).collect();
        let mut tenants = Self { tx, start: start.to_owned(), wrapped: false, kinds };
        tenants.seek(start)?;
        Ok(tenants)
    }

    /// Returns the next tenant and those of its kinds that have capacity.
    pub(crate) fn next(
        &mut self,
        capacity: &ClaimCapacity<'_>,
    ) -> rusqlite::Result<Option<(String, Vec<&'a str>)>> {
        self.kinds.retain(|cursor| capacity.admits(cursor.kind));
        let mut least = self.least();
        if least.is_none() && !self.wrapped {
            self.wrapped = true;
            self.seek("")?;
            least = self.least();
        }
        let Some(tenant) = least.filter(|tenant| !self.wrapped || *tenant <= self.start) else {
            return Ok(None);
        };
        let mut kinds = Vec::new();
        for cursor in &mut self.kinds {
            if cursor.next.as_ref() == Some(&tenant) {
                kinds.push(cursor.kind);
                cursor.seek(self.tx, &tenant)?;
            }
        }
        Ok(Some((tenant, kinds)))
    }

    fn least(&self) -> Option<String> {
        self.kinds.iter().filter_map(|cursor| cursor.next.as_ref()).min().cloned()
    }

    fn seek(&mut self, after: &str) -> rusqlite::Result<()> {
        self.kinds.iter_mut().try_for_each(|cursor| cursor.seek(self.tx, after))
    }
}

impl KindCursor<'_> {
    fn seek(&mut self, tx: &Tx<'_>, after: &str) -> rusqlite::Result<()> {
        self.next = tx.one(sql::NEXT_TENANT, [self.kind, after])?;
        Ok(())
    }
}
