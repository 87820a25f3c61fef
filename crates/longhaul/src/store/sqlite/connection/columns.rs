//! Reading and encoding of column values.

use std::time::Duration;

use rusqlite::types::{FromSql, Type};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::job::{JobId, Json, Timestamp};

/// Reads a row from left to right.
pub(crate) struct Columns<'a> {
    row: &'a rusqlite::Row<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a rusqlite::Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    /// Reads the next column.
    pub(crate) fn get<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let value = self.row.get(self.next)?;
        self.next += 1;
        Ok(value)
    }

    /// Reads a text and parses it.
    pub(crate) fn text<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<T> {
        let text: String = self.get()?;
        parse(&text).ok_or_else(|| unreadable(format!("column {} holds {text:?}", self.next - 1)))
    }

    /// Reads a non-negative number.
    pub(crate) fn count(&mut self) -> rusqlite::Result<u64> {
        let number: i64 = self.get()?;
        u64::try_from(number).map_err(unreadable)
    }

    pub(crate) fn at(&mut self) -> rusqlite::Result<Timestamp> {
        self.get().map(Timestamp::from_millis)
    }

    pub(crate) fn opt_at(&mut self) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.get::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    pub(crate) fn duration(&mut self) -> rusqlite::Result<Duration> {
        self.count().map(Duration::from_millis)
    }

    pub(crate) fn opt_duration(&mut self) -> rusqlite::Result<Option<Duration>> {
        let millis: Option<i64> = self.get()?;
        millis
            .map(|ms| u64::try_from(ms).map(Duration::from_millis).map_err(unreadable))
            .transpose()
    }

    pub(crate) fn opt_id(&mut self) -> rusqlite::Result<Option<JobId>> {
        let text: Option<String> = self.get()?;
        text.map(|text| text.parse().map_err(|()| unreadable(format!("{text:?} is not a job id"))))
            .transpose()
    }

    /// Reads an optional value that is stored as JSON.
    pub(crate) fn opt_json<T: DeserializeOwned>(&mut self) -> rusqlite::Result<Option<T>> {
        let text: Option<String> = self.get()?;
        text.as_deref().map(from_json).transpose()
    }

    /// Reads JSON unchanged.
    pub(crate) fn json(&mut self) -> rusqlite::Result<Json> {
        Json::from_text(self.get::<String>()?).map_err(unreadable)
    }
}

/// Converts to the integer type of SQLite. Saturates, which versions and epochs never reach.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a count for `LIMIT`.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn to_json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(unreadable)
}

/// Creates the error for a value that this program never wrote.
pub(crate) fn unreadable(
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
}
