//! Names of enum variants on the wire and in the database.

/// Implements `ALL`, `as_str` and `Display` for an enum, from a table of its variants' names.
macro_rules! names {
    ($type:ident { $($variant:ident: $name:literal,)+ }) => {
        impl $type {
            /// All variants, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(super) use names;
