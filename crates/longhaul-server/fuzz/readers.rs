//! Everything that reads text from outside, in one program, so that the server is instrumented once: the
//! first byte says who reads the others. `LONGHAUL_FUZZ_TARGET=heads` lets one of them read alone.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use longhaul_server::fuzzing::{Target, targets};

static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
    let only = std::env::var("LONGHAUL_FUZZ_TARGET").ok();
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let none: Target = ("", |_| (), &[]);
    // The index stays as it is in the corpus, also when only one target is selected.
    targets().map(|target| if is_wanted(target.0) { target } else { none }).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((number, bytes)) = bytes.split_first() else { return };
    if let Some((_, holds, _)) = TARGETS.get(usize::from(*number) % TARGETS.len()) {
        holds(bytes);
    }
});
