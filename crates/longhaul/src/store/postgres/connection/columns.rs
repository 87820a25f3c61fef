//! Conversion between Rust values and columns.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::job::{JobId, Json, Timestamp};
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

    /// Reads the next column.
    pub(crate) fn get<T: FromSql<'a>>(&mut self) -> Result<T, PgError> {
        let value = self.row.try_get(self.next).map_err(unreadable)?;
        self.next += 1;
        Ok(value)
    }

    /// Reads a text and parses it.
    pub(crate) fn text<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, PgError> {
        let text: &str = self.get()?;
        let column = self.next - 1;
        parse(text).ok_or_else(|| unreadable(format!("column {column} holds {text:?}")))
    }

    /// Reads a non-negative bigint.
    pub(crate) fn count(&mut self) -> Result<u64, PgError> {
        u64::try_from(self.get::<i64>()?).map_err(unreadable)
    }

    /// Reads a non-negative integer.
    pub(crate) fn small(&mut self) -> Result<u32, PgError> {
        u32::try_from(self.get::<i32>()?).map_err(unreadable)
    }

    /// Reads a bigint that fits 32 bits.
    pub(crate) fn number(&mut self) -> Result<u32, PgError> {
        u32::try_from(self.get::<i64>()?).map_err(unreadable)
    }

    pub(crate) fn at(&mut self) -> Result<Timestamp, PgError> {
        self.get().map(Timestamp::from_millis)
    }

    pub(crate) fn opt_at(&mut self) -> Result<Option<Timestamp>, PgError> {
        Ok(self.get::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    pub(crate) fn duration(&mut self) -> Result<Duration, PgError> {
        self.count().map(Duration::from_millis)
    }

    pub(crate) fn opt_duration(&mut self) -> Result<Option<Duration>, PgError> {
        let millis: Option<i64> = self.get()?;
        millis
            .map(|ms| u64::try_from(ms).map(Duration::from_millis).map_err(unreadable))
            .transpose()
    }

    pub(crate) fn id(&mut self) -> Result<JobId, PgError> {
        self.text(|text| text.parse().ok())
    }

    pub(crate) fn opt_id(&mut self) -> Result<Option<JobId>, PgError> {
        let text: Option<&str> = self.get()?;
        text.map(|text| text.parse().map_err(|()| unreadable(format!("{text:?} is not a job id"))))
            .transpose()
    }

    /// Reads a value stored as JSON.
    pub(crate) fn opt_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, PgError> {
        let text: Option<&str> = self.get()?;
        text.map(|text| serde_json::from_str(text).map_err(unreadable)).transpose()
    }

    /// Reads JSON without parsing it into a value.
    pub(crate) fn json(&mut self) -> Result<Json, PgError> {
        Json::from_text(self.get::<String>()?).map_err(unreadable)
    }
}

/// Converts to bigint. Saturates, but versions and epochs rise by one and never get there.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts to integer. Saturates.
pub(crate) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Converts a count for `LIMIT`.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, PgError> {
    serde_json::to_string(value).map_err(unreadable)
}

/// Replaces NUL, which Postgres cannot store, with the replacement character.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Returns the error for a value that this program never wrote.
pub(crate) fn unreadable(why: impl std::fmt::Display) -> PgError {
    PgError::Unreadable(why.to_string())
}
