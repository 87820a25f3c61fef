//! Byte sizes with units.

/// Largest first, so that the first divisor is the unit to print.
const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses a whole number with a unit, such as `1MiB`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*scale)
}

/// Formats a size so that [`parse_bytes`] returns the same number.
pub(super) fn format_bytes(bytes: u64) -> String {
    let exact = UNITS.iter().find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale));
    let (unit, scale) = exact.unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn byte_units_are_parsed() {
        for (text, bytes) in
            [("1MiB", 1 << 20), ("500KiB", 512_000), ("10MB", 10_000_000), ("0B", 0)]
        {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn malformed_byte_sizes_are_rejected() {
        for bad in ["", "1", "MiB", "1.5MiB", "1 MiB", "1mib", "-1B", "99999999999GiB"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn formatted_byte_sizes_parse_back(bytes: u64) {
            prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Some(bytes));
        }
    }
}
