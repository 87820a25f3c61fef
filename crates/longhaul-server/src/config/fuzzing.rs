//! Properties of configuration files.

use std::path::Path;
use std::sync::Arc;

use super::check::check;
use super::layers::Layers;
use super::units::{format_bytes, parse_bytes};
use super::value::{lines_of, parse};
use super::{Config, Origin, Sources, effective_settings};
use crate::fuzzing::{Target, text};

pub(crate) const BYTES: Target = (
    "byte-unit",
    bytes,
    &[b"1MiB", b"007KB", b"0B", b"18446744073709551615B", b"17179869183GiB", b"1 MiB"],
);

/// A formatted size parses back to the same number.
fn bytes(input: &[u8]) {
    let Some(size) = text(input).and_then(parse_bytes) else { return };
    assert_eq!(parse_bytes(&format_bytes(size)), Some(size));
}

pub(crate) const TOML: Target = (
    "config",
    toml,
    &[
        b"listen = \"127.0.0.1:9000\"\ndata = \"/tmp/x\"\n[limits]\ninput_bytes_max = \"2MiB\"\n",
        b"[kinds.a]\ncommand = [\"true\"]\nconcurrency = 3\ntimeout = \"1m\"\n[queues.q]\nrate = \"10/1s\"\nrunning_max = 2\n",
        b"database = \"postgres://u:hunter2@h/d\"\nserver_key = \"hunter2\"\n[billing]\nstripe_secret = \"hunter2\"\n",
        b"[http]\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]\ncors_origins = [\"https://a\"]\nheader_timeout = \"10s\"\n[oidc]\nissuer = \"https://i\"\naudience = \"a\"\n",
        b"listen = 1\nlisten = 2\n[a.b.c]\nx = 1979-05-27\ny = 0x_f\nz = 1e5\n[[kinds]]\n",
        b"[kinds.r]\nhttp = { url = 'http://x/${A', headers = { a = '${A}' }, retry_on = ['5xx'] }\n[[proxy]]\npath = '/r'\nkind = 'r'\npass = ['cookie']\n",
        b"[log]\nlevel = \"nonsense\"\nformat = \"x\"\n[lease]\nduration = \"99999999999999d\"\n",
    ],
);

/// A file gives a configuration, or errors on existing lines; and always the same.
fn toml(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let lines = text.matches('\n').count() + 1;
    let read = || -> Result<Config, Vec<String>> {
        let path: Arc<Path> = Path::new("longhaul.toml").into();
        let mut layers = Layers::defaults();
        assert!(layers.errors.is_empty());
        match parse(text, &lines_of(&path, text)) {
            Ok(root) => layers.add_document(root),
            Err(errors) => layers.errors.extend(errors),
        }
        assert!(!effective_settings(&layers).is_empty());
        let (config, errors) =
            check(layers, &Sources { replica: "replica".to_owned(), ..Sources::default() });
        for error in &errors {
            if let Origin::File(_, line) = &error.origin {
                assert!((1..=lines).contains(line), "{error:?} of {lines} lines");
            }
        }
        match config {
            Some(config) if errors.is_empty() => Ok(config),
            _ => {
                assert!(!errors.is_empty(), "rejected without a reason");
                Err(errors.iter().map(ToString::to_string).collect())
            }
        }
    };
    assert_eq!(read(), read());
}
