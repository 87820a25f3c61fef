//! Reading of columns into values, for both stores.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use serde::de::DeserializeOwned;

#[cfg(feature = "server")]
use super::accounts::{Scopes, Subscription, TenantLimits};
use super::{BlobRole, WrappedKey};
use crate::job::{
    Artifact, EventFilter, JobError, JobId, Json, Name, Progress, Status, TenantId, Timestamp,
    Webhook,
};

/// A row whose columns are read from left to right.
pub(super) trait ReadColumns: Sized {
    type Error;

    /// Returns the index of the next column.
    fn position(&self) -> usize;

    fn opt_text(&mut self) -> Result<Option<&str>, Self::Error>;

    fn opt_int(&mut self) -> Result<Option<i64>, Self::Error>;

    fn opt_bytes(&mut self) -> Result<Option<&[u8]>, Self::Error>;

    fn flag(&mut self) -> Result<bool, Self::Error>;

    /// Creates the error for a value that this program never wrote.
    fn unreadable(why: impl Display) -> Self::Error;

    /// Reads a value from the next column, or from as many as its type has.
    fn get<T: FromRow>(&mut self) -> Result<T, Self::Error> {
        T::read(self)
    }

    /// Reads a value that is stored as JSON.
    fn opt_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Self::Error> {
        self.opt_text()?.map(serde_json::from_str).transpose().map_err(Self::unreadable)
    }
}

/// A type that is read from one column.
pub(super) trait FromColumn: Sized {
    /// Reads the next column; `None` if it is null.
    fn read_opt<C: ReadColumns>(columns: &mut C) -> Result<Option<Self>, C::Error>;
}

/// A type that is read from one or more columns.
pub(super) trait FromRow: Sized {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error>;
}

impl<T: FromColumn> FromRow for T {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let column = columns.position();
        T::read_opt(columns)?.ok_or_else(|| C::unreadable(format!("column {column} is null")))
    }
}

impl<T: FromColumn> FromRow for Option<T> {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        T::read_opt(columns)
    }
}

macro_rules! tuples {
    ($(($($part:ident),*);)*) => {
        $(impl<$($part: FromRow),*> FromRow for ($($part,)*) {
            fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
                Ok(($($part::read(columns)?,)*))
            }
        })*
    };
}

tuples! {
    (A, B);
    (A, B, D);
}

/// Implements [`FromRow`] for structs: the columns are in the order of the fields.
macro_rules! from_columns {
    ($($type:ident { $($field:ident),* $(,)? })*) => {
        $(impl $crate::store::columns::FromRow for $type {
            fn read<C: $crate::store::columns::ReadColumns>(
                columns: &mut C,
            ) -> Result<Self, C::Error> {
                Ok(Self { $($field: columns.get()?),* })
            }
        })*
    };
}

pub(super) use from_columns;

/// Two columns that are either both null or both not.
impl FromRow for Option<(String, Timestamp)> {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        match columns.get()? {
            (Some(text), Some(at)) => Ok(Some((text, at))),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(C::unreadable("a value without its time")),
        }
    }
}

/// Implements [`FromColumn`] by a conversion of text, numbers or bytes.
macro_rules! from_column {
    ($($source:ident { $($type:ty: $convert:expr;)* })*) => {
        $($(impl FromColumn for $type {
            fn read_opt<C: ReadColumns>(columns: &mut C) -> Result<Option<Self>, C::Error> {
                let column = columns.position();
                let value = columns.$source()?.map($convert).transpose();
                value.map_err(|why| C::unreadable(format!("column {column}: {why}")))
            }
        })*)*
    };
}

from_column! {
    opt_text {
        String: |text| Ok::<_, Infallible>(text.to_owned());
        JobId: known(|text| text.parse().ok());
        Name: known(|text| Name::new(text).ok());
        TenantId: known(TenantId::stored);
        Status: known(Status::parse);
        BlobRole: known(BlobRole::parse);
        EventFilter: known(|words| EventFilter::from_words(words).ok());
        // The error does not quote the text, because it is a caller's input.
        Json: Json::from_text;
        Progress: serde_json::from_str;
        JobError: serde_json::from_str;
        Box<Webhook>: serde_json::from_str;
    }
    opt_int {
        i64: Ok::<_, Infallible>;
        i32: i32::try_from;
        u32: u32::try_from;
        u64: u64::try_from;
        Timestamp: |ms| Ok::<_, Infallible>(Timestamp::from_millis(ms));
        Duration: |ms| u64::try_from(ms).map(Duration::from_millis);
    }
    opt_bytes {
        [u8; 32]: <[u8; 32]>::try_from;
        WrappedKey: |bytes| Ok::<_, Infallible>(WrappedKey(bytes.to_vec()));
    }
}

#[cfg(feature = "server")]
from_column! {
    opt_text {
        Subscription: known(Subscription::parse);
        Scopes: known(Scopes::from_text);
    }
}

fn known<T>(parse: impl FnOnce(&str) -> Option<T>) -> impl FnOnce(&str) -> Result<T, String> {
    move |text| parse(text).ok_or_else(|| format!("unexpected value {text:?}"))
}

impl FromColumn for bool {
    fn read_opt<C: ReadColumns>(columns: &mut C) -> Result<Option<Self>, C::Error> {
        columns.flag().map(Some)
    }
}

/// Implements [`FromRow`] for JSON collections, which are empty if the column is null.
macro_rules! from_json {
    ($($type:ty;)*) => {
        $(impl FromRow for $type {
            fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
                Ok(columns.opt_json()?.unwrap_or_default())
            }
        })*
    };
}

from_json! {
    BTreeMap<String, String>;
    Vec<Artifact>;
    Vec<Name>;
}

#[cfg(feature = "server")]
from_json! {
    TenantLimits;
}

/// Converts to the integer type of the databases. Saturates, which versions and epochs never reach.
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
