//! How values are kept in columns.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::error::Trouble;
use crate::job::{JobId, Json, Timestamp};

/// Reads a row from left to right.
#[derive(Clone)]
pub(super) struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn of(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    /// Goes on with the column of this name: later versions add some in between.
    pub(super) fn go_to(&mut self, name: &str) -> Result<&mut Self, Trouble> {
        let place = self.row.columns().iter().position(|column| column.name() == name);
        self.next = place.ok_or_else(|| unreadable(format!("there is no column {name}")))?;
        Ok(self)
    }

    /// The next column.
    pub(super) fn get<T: FromSql<'a>>(&mut self) -> Result<T, Trouble> {
        let value = self.row.try_get(self.next).map_err(unreadable)?;
        self.next += 1;
        Ok(value)
    }

    /// A text that `parse` understands.
    pub(super) fn text<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Trouble> {
        let text: &str = self.get()?;
        let column = self.next - 1;
        parse(text).ok_or_else(|| unreadable(format!("column {column} holds {text:?}")))
    }

    /// A number that is never negative.
    pub(super) fn count(&mut self) -> Result<u64, Trouble> {
        u64::try_from(self.get::<i64>()?).map_err(unreadable)
    }

    /// A small number that is never negative.
    pub(super) fn small(&mut self) -> Result<u32, Trouble> {
        u32::try_from(self.get::<i32>()?).map_err(unreadable)
    }

    /// A number that fits thirty-two bits.
    pub(super) fn number(&mut self) -> Result<u32, Trouble> {
        u32::try_from(self.get::<i64>()?).map_err(unreadable)
    }

    pub(super) fn at(&mut self) -> Result<Timestamp, Trouble> {
        self.get().map(Timestamp::from_millis)
    }

    pub(super) fn opt_at(&mut self) -> Result<Option<Timestamp>, Trouble> {
        Ok(self.get::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    pub(super) fn duration(&mut self) -> Result<Duration, Trouble> {
        self.count().map(Duration::from_millis)
    }

    pub(super) fn opt_duration(&mut self) -> Result<Option<Duration>, Trouble> {
        let millis: Option<i64> = self.get()?;
        millis
            .map(|ms| u64::try_from(ms).map(Duration::from_millis).map_err(unreadable))
            .transpose()
    }

    pub(super) fn id(&mut self) -> Result<JobId, Trouble> {
        self.text(|text| text.parse().ok())
    }

    pub(super) fn opt_id(&mut self) -> Result<Option<JobId>, Trouble> {
        let text: Option<&str> = self.get()?;
        text.map(|text| text.parse().map_err(|()| unreadable(format!("{text:?} is not a job id"))))
            .transpose()
    }

    /// A value that is kept as JSON.
    pub(super) fn opt_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Trouble> {
        let text: Option<&str> = self.get()?;
        text.map(|text| serde_json::from_str(text).map_err(unreadable)).transpose()
    }

    /// JSON as it came.
    pub(super) fn json(&mut self) -> Result<Json, Trouble> {
        Json::from_text(self.get::<String>()?).map_err(unreadable)
    }
}

/// As Postgres keeps whole numbers. Versions and epochs rise by one at a time and never get there.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// As Postgres keeps small numbers.
pub(super) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A limit, for `LIMIT`.
pub(super) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, Trouble> {
    serde_json::to_string(value).map_err(unreadable)
}

/// The one character that Postgres cannot keep becomes the one that stands for what is lost.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// The database holds what this program never wrote.
pub(super) fn unreadable(why: impl std::fmt::Display) -> Trouble {
    Trouble::Unreadable(why.to_string())
}
