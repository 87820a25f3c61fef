//! Reading and encoding of column values.

use std::fmt::Display;

use rusqlite::types::{FromSqlResult, Type, ValueRef};
use serde::Serialize;

use crate::store::columns::ReadColumns;
pub(crate) use crate::store::columns::{int, limit, millis};

/// Reads a row from left to right.
pub(crate) struct Columns<'a> {
    row: &'a rusqlite::Row<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a rusqlite::Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    fn read<T>(
        &mut self,
        convert: impl FnOnce(ValueRef<'a>) -> FromSqlResult<T>,
    ) -> rusqlite::Result<T> {
        let value = self.row.get_ref(self.next)?;
        self.next += 1;
        convert(value).map_err(unreadable)
    }
}

impl ReadColumns for Columns<'_> {
    type Error = rusqlite::Error;

    fn position(&self) -> usize {
        self.next
    }

    fn opt_text(&mut self) -> rusqlite::Result<Option<&str>> {
        self.read(|value| value.as_str_or_null())
    }

    fn opt_int(&mut self) -> rusqlite::Result<Option<i64>> {
        self.read(|value| value.as_i64_or_null())
    }

    fn opt_bytes(&mut self) -> rusqlite::Result<Option<&[u8]>> {
        self.read(|value| value.as_blob_or_null())
    }

    fn flag(&mut self) -> rusqlite::Result<bool> {
        self.read(|value| value.as_i64()).map(|number| number != 0)
    }

    fn unreadable(why: impl Display) -> rusqlite::Error {
        unreadable(why)
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn unreadable(why: impl Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.to_string().into())
}
