//! Places in a source, as people count them.

/// The line and the column of a byte, both from 1; of the end, if the byte is past it.
pub(super) fn of_byte(source: &str, byte: usize) -> (usize, usize) {
    let before = source.get(..byte).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).map_or(0, |text| text.chars().count()) + 1;
    (line, column)
}

/// What `line:column: ` in front of a message says, and the message.
pub(super) fn in_front(message: &str) -> Option<(usize, usize, &str)> {
    let (line, rest) = message.split_once(':')?;
    let (column, rest) = rest.split_once(':')?;
    Some((line.trim().parse().ok()?, column.trim().parse().ok()?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_not_bytes() {
        assert_eq!(of_byte("a\nüb c", 5), (2, 3));
        assert_eq!(of_byte("a\nb", 99), (2, 2));
        assert_eq!(of_byte("", 0), (1, 1));
    }

    #[test]
    fn a_place_in_front_of_a_message_is_read() {
        assert_eq!(in_front("3:14: no such: shape"), Some((3, 14, "no such: shape")));
        assert_eq!(in_front("metrics: no: font"), None);
    }
}
