//! Runs each fuzz target briefly: with its seeds, and with the same thousand mutations
//! of them each time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use longhaul_server::fuzzing::{Target, targets};

const CHANGES: usize = 1_000;
/// Of those that do more than read: a client is built of each address, and a file is checked beside the
/// documented one.
const FEWER: [(&str, usize); 2] = [("blob-address", 20), ("config", 60)];
/// Longer texts hold nothing that shorter ones do not, but take longer.
const BYTES_MAX: usize = 2_000;

/// Words of the formats that are read.
const WORDS: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b",",
    b";",
    b"=",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\r\n",
    b"\n\n",
    b"\0",
    b"\xff",
    b"%",
    b"+",
    b"-1",
    b"18446744073709551616",
    b"content-length: 1\r\n",
    b"\\u0061",
    b"1e999",
    b"\xef\xbf\xbd",
    b"transfer-encoding: chunked\r\n",
    b"                                ",
];

/// `SplitMix64`: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.throw() % end as u64).unwrap()
    }
}

fn changed(seeds: &[&[u8]], dice: &mut Dice) -> Vec<u8> {
    let mut text = seeds[dice.below(seeds.len())].to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(text.len() + 1);
        let end = (at + dice.below(12)).min(text.len());
        match dice.below(6) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..end, WORDS[dice.below(WORDS.len())].iter().copied())),
            2 => drop(text.splice(at..at, WORDS[dice.below(WORDS.len())].iter().copied())),
            3 => drop(text.splice(at..at, text[at..end].repeat(1 + dice.below(40)))),
            4 => text.truncate(at),
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    text.truncate(BYTES_MAX);
    text
}

fn hold((name, holds, seeds): Target) -> Result<(), String> {
    let mut dice = Dice(1);
    let told = |text: &[u8]| format!("{name} does not hold of b\"{}\"", text.escape_ascii());
    let look = |text: &[u8]| catch_unwind(AssertUnwindSafe(|| holds(text))).map_err(|_| told(text));
    look(b"")?;
    seeds.iter().try_for_each(|seed| look(seed))?;
    let fewer = FEWER.iter().find(|(slow, _)| *slow == name);
    let changes = fewer.map_or(CHANGES, |(_, changes)| *changes);
    (0..changes).try_for_each(|_| look(&changed(seeds, &mut dice)))
}

#[test]
fn fuzz_properties_hold_for_a_thousand_mutations() {
    let failed: Vec<String> = targets().filter_map(|target| hold(target).err()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn fuzz_target_names_are_unique_and_fit_into_a_byte() {
    let mut names: Vec<&str> = targets().map(|(name, ..)| name).collect();
    assert!(names.len() <= 256);
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

/// `make fuzz` begins with these: the first byte is the target's number.
#[test]
fn fuzz_seeds_are_written_to_the_corpus() {
    let Some(folder) = std::env::var_os("LONGHAUL_FUZZ_CORPUS") else { return };
    for (number, (name, _, seeds)) in targets().enumerate() {
        for (n, seed) in seeds.iter().enumerate() {
            let text = [&[u8::try_from(number).unwrap()], *seed].concat();
            std::fs::write(Path::new(&folder).join(format!("{name}-{n}")), text).unwrap();
        }
    }
}
