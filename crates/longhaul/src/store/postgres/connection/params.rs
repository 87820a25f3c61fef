//! Parameters with their types, so that a statement can be sent prepared or unprepared.

use std::borrow::Cow;
use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::job::{EncodedId, JobId, Name, TenantId, Timestamp};

/// A parameter of a statement.
pub(crate) trait Param: ToSql + Sync + Send {
    fn kind(&self) -> Type;
}

/// Implements [`Param`] for values, optional values and arrays of both.
macro_rules! params {
    ($($rust:ty => $kind:ident, $array:ident;)*) => {
        $(params! { @one
            $rust => $kind;
            Option<$rust> => $kind;
            Vec<$rust> => $array;
            Vec<Option<$rust>> => $array;
        })*
    };
    (@one $($rust:ty => $kind:ident;)*) => {
        $(impl Param for $rust {
            fn kind(&self) -> Type {
                Type::$kind
            }
        })*
    };
}

params! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    Timestamp => INT8, INT8_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    Cow<'_, str> => TEXT, TEXT_ARRAY;
    JobId => TEXT, TEXT_ARRAY;
    Name => TEXT, TEXT_ARRAY;
    &Name => TEXT, TEXT_ARRAY;
    TenantId => TEXT, TEXT_ARRAY;
    &TenantId => TEXT, TEXT_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
}

impl Param for Option<Vec<String>> {
    fn kind(&self) -> Type {
        Type::TEXT_ARRAY
    }
}

/// Sends a type of ours as the value that a method returns.
macro_rules! sent_as {
    ($($rust:ty: $method:ident => $sql:ty;)*) => {
        $(impl ToSql for $rust {
            fn to_sql(
                &self,
                kind: &Type,
                out: &mut BytesMut,
            ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
                self.$method().to_sql(kind, out)
            }

            fn accepts(kind: &Type) -> bool {
                <$sql as ToSql>::accepts(kind)
            }

            to_sql_checked!();
        })*
    };
}

sent_as! {
    Name: as_str => &str;
    TenantId: as_str => &str;
    Timestamp: as_millis => i64;
}

impl ToSql for JobId {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.encode(&mut EncodedId::default()).to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&str as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

/// Parameters that are computed from a value, for a statement that is sent from several places.
pub(crate) struct ParamList<'a>(pub(crate) Vec<Box<dyn Param + 'a>>);

impl ParamList<'_> {
    pub(crate) fn params(&self) -> Vec<&dyn Param> {
        self.0.iter().map(|param| &**param as &dyn Param).collect()
    }
}

/// Creates a [`ParamList`].
#[cfg(feature = "server")]
macro_rules! param_list {
    ($($param:expr),* $(,)?) => {
        $crate::store::postgres::connection::params::ParamList(vec![$(Box::new($param)),*])
    };
}

#[cfg(feature = "server")]
pub(crate) use param_list;
