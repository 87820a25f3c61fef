//! Lines and columns in a source.

/// Returns the line and column of a byte offset, both from 1. An offset past the end counts as the end.
pub(crate) fn of_byte(source: &str, byte: usize) -> (usize, usize) {
    let before = source.get(..byte).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).map_or(0, |text| text.chars().count()) + 1;
    (line, column)
}

/// Splits a message that starts with `line:column: ` into line, column and text.
pub(crate) fn split_prefix(message: &str) -> Option<(usize, usize, &str)> {
    let (line, rest) = message.split_once(':')?;
    let (column, rest) = rest.split_once(':')?;
    Some((line.trim().parse().ok()?, column.trim().parse().ok()?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_counts_characters_not_bytes() {
        assert_eq!(of_byte("a\nüb c", 5), (2, 3));
        assert_eq!(of_byte("a\nb", 99), (2, 2));
        assert_eq!(of_byte("", 0), (1, 1));
    }

    #[test]
    fn position_prefix_of_a_message_is_split_off() {
        assert_eq!(split_prefix("3:14: no such: shape"), Some((3, 14, "no such: shape")));
        assert_eq!(split_prefix("metrics: no: font"), None);
    }
}
