//! The rotation over tenants.

use std::collections::HashMap;

use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// The tenants that have jobs in line of the kinds asked for, each once, from one on and around.
pub(crate) struct Tenants<'a> {
    tx: &'a Tx<'a>,
    start: String,
    wrapped: bool,
    kinds: Vec<KindLine<'a>>,
}

/// The next tenant that has jobs of one kind.
struct KindLine<'a> {
    kind: &'a str,
    next: Option<String>,
}

impl<'a> Tenants<'a> {
    /// Begins with the tenant after `start`.
    pub(crate) fn after(
        tx: &'a Tx<'a>,
        start: &str,
        kinds: impl Iterator<Item = &'a str>,
    ) -> rusqlite::Result<Self> {
        let kinds = kinds.map(|kind| KindLine { kind, next: None }).collect();
        let mut tenants = Self { tx, start: start.to_owned(), wrapped: false, kinds };
        tenants.seek(start)?;
        Ok(tenants)
    }

    /// The next tenant, and which of the kinds that have room it has jobs of.
    pub(crate) fn next(
        &mut self,
        room: &HashMap<&str, usize>,
    ) -> rusqlite::Result<Option<(String, Vec<&'a str>)>> {
        self.kinds.retain(|line| room.get(line.kind).is_some_and(|room| *room > 0));
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
        for line in &mut self.kinds {
            if line.next.as_ref() == Some(&tenant) {
                kinds.push(line.kind);
                line.seek(self.tx, &tenant)?;
            }
        }
        Ok(Some((tenant, kinds)))
    }

    fn least(&self) -> Option<String> {
        self.kinds.iter().filter_map(|line| line.next.as_ref()).min().cloned()
    }

    fn seek(&mut self, after: &str) -> rusqlite::Result<()> {
        self.kinds.iter_mut().try_for_each(|line| line.seek(self.tx, after))
    }
}

impl KindLine<'_> {
    fn seek(&mut self, tx: &Tx<'_>, after: &str) -> rusqlite::Result<()> {
        self.next = tx.one(sql::NEXT_TENANT, [self.kind, after], |row| row.get(0))?;
        Ok(())
    }
}
