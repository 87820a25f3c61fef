//! Conversion between Rust values and columns.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Display;

use serde::Serialize;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::store::columns::{FromRow, ReadColumns};
pub(crate) use crate::store::columns::{int, limit, millis};
use crate::store::postgres::connection::error::PgError;

/// Reads the columns of a row from left to right.
#[derive(Clone)]
pub(crate) struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    /// Continues with the column of this name, because later versions append columns to views.
    pub(crate) fn seek(&mut self, name: &str) -> Result<&mut Self, PgError> {
        let index = self.row.columns().iter().position(|column| column.name() == name);
        self.next = index.ok_or_else(|| unreadable(format!("no column {name}")))?;
        Ok(self)
    }

    fn take<T: FromSql<'a>>(&mut self) -> Result<T, PgError> {
        let value = self.row.try_get(self.next).map_err(unreadable)?;
        self.next += 1;
        Ok(value)
    }
}

impl ReadColumns for Columns<'_> {
    type Error = PgError;

    fn position(&self) -> usize {
        self.next
    }

    fn opt_text(&mut self) -> Result<Option<&str>, PgError> {
        self.take()
    }

    fn opt_int(&mut self) -> Result<Option<i64>, PgError> {
        Ok(self.take::<Option<Integer>>()?.map(|Integer(number)| number))
    }

    fn opt_bytes(&mut self) -> Result<Option<&[u8]>, PgError> {
        self.take()
    }

    fn flag(&mut self) -> Result<bool, PgError> {
        self.take()
    }

    fn unreadable(why: impl Display) -> PgError {
        unreadable(why)
    }
}

/// A number from a column of type integer or bigint.
struct Integer(i64);

impl<'a> FromSql<'a> for Integer {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        if *kind == Type::INT4 {
            i32::from_sql(kind, raw).map(|number| Self(number.into()))
        } else {
            i64::from_sql(kind, raw).map(Self)
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT4, Type::INT8].contains(kind)
    }
}

/// Reads all rows.
pub(crate) fn read_all<T: FromRow>(rows: &[Row]) -> Result<Vec<T>, PgError> {
    rows.iter().map(|row| Columns::of(row).get()).collect()
}

/// Reads the first row, if any.
pub(crate) fn read_first<T: FromRow>(rows: &[Row]) -> Result<Option<T>, PgError> {
    rows.first().map(|row| Columns::of(row).get()).transpose()
}

/// Converts to integer. Saturates.
pub(crate) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, PgError> {
    serde_json::to_string(value).map_err(unreadable)
}

/// Replaces NUL, which Postgres cannot store, with the replacement character.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Returns the error for a value that this program never wrote.
pub(crate) fn unreadable(why: impl Display) -> PgError {
    PgError::Unreadable(why.to_string())
}
