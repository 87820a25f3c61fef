//! Rows that are sent to Postgres as one array per column.

/// Declares a row and the batch that collects such rows by column.
///
/// Columns are parameters in the order of the fields, so that a statement's `unnest` and the row can be
/// read against each other and all arrays have the same length.
macro_rules! columns {
    (
        $(#[$meta:meta])*
        $vis:vis struct $row:ident $(<$life:lifetime>)? => $batch:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $row $(<$life>)? {
            $($(#[$doc])* $vis $field: $type,)*
        }

        #[derive(Default)]
        $vis struct $batch $(<$life>)? {
            rows: usize,
            $($field: Vec<$type>,)*
        }

        impl $(<$life>)? $batch $(<$life>)? {
            $vis fn push(&mut self, row: $row $(<$life>)?) {
                self.rows += 1;
                $(self.$field.push(row.$field);)*
            }

            #[allow(dead_code, reason = "not every batch is counted")]
            $vis fn len(&self) -> usize {
                self.rows
            }

            $vis fn params(&self) -> Vec<&dyn $crate::store::postgres::connection::params::Param> {
                vec![$(&self.$field as &dyn $crate::store::postgres::connection::params::Param),*]
            }
        }
    };
}

pub(super) use columns;
