//! Builder methods that set one field.

/// Declares setters, one per line: name and arguments, the field, and the field's new value.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) { $($field:ident).+ = $value:expr })+) => {
        $($(#[$doc])*
        pub fn $name(mut self $(, $argument: $type)*) -> Self {
            self.$($field).+ = $value;
            self
        })+
    };
}

pub(crate) use setters;
