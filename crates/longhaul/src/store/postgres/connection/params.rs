//! Parameters with their types, so that a statement can be sent prepared or unprepared.

use tokio_postgres::types::{ToSql, Type};

/// A parameter of a statement.
pub(crate) trait Param: ToSql + Sync + Send {
    fn kind(&self) -> Type;
}

macro_rules! kinds {
    ($($rust:ty => $kind:ident,)*) => {
        $(impl Param for $rust {
            fn kind(&self) -> Type {
                Type::$kind
            }
        })*
    };
}

kinds! {
    bool => BOOL,
    i32 => INT4,
    i64 => INT8,
    &str => TEXT,
    String => TEXT,
    Option<&str> => TEXT,
    Option<String> => TEXT,
    Option<i64> => INT8,
    Option<i32> => INT4,
    Vec<u8> => BYTEA,
    Vec<bool> => BOOL_ARRAY,
    Vec<i32> => INT4_ARRAY,
    Vec<i64> => INT8_ARRAY,
    Vec<Option<i64>> => INT8_ARRAY,
    Vec<&str> => TEXT_ARRAY,
    Vec<String> => TEXT_ARRAY,
    Option<Vec<String>> => TEXT_ARRAY,
    Vec<Option<&str>> => TEXT_ARRAY,
    Vec<Option<String>> => TEXT_ARRAY,
    Vec<&[u8]> => BYTEA_ARRAY,
    Vec<Vec<u8>> => BYTEA_ARRAY,
}
