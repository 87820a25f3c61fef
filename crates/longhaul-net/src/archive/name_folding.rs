//! Name comparison across file systems. Pure.

use unicode_normalization::UnicodeNormalization;

/// Folds a name as the most lenient file systems compare it: without case, decomposed, without invisible
/// characters and trailing dots and spaces. Goes through upper case, where `ß` is `SS` and `ſ` is `S`.
pub(super) fn fold(name: &str) -> Box<str> {
    let visible = name.nfd().filter(|char| !is_ignorable(*char));
    let folded = visible.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    let folded: String = folded.nfd().collect();
    folded.trim_end_matches(['.', ' ']).into()
}

/// Returns true if such a file system reduces the name to nothing, `.` or `..`.
pub(super) fn vanishes(name: &str) -> bool {
    name.chars().all(|char| matches!(char, '.' | ' ') || is_ignorable(char))
}

/// Characters that ext4 and HFS+ skip in comparisons without case.
fn is_ignorable(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
