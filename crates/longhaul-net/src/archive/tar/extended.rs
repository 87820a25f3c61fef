//! Extended headers of the next entry: GNU long names and pax.

use std::io::Read;

use tar::Header;

use super::super::ArchiveError;
use super::super::bounded_read::fill;
use super::super::error::WHOLE;
use super::super::reader::EntryReader;
use super::skip_padding;

/// Large enough for extended attributes.
const EXTENDED_BYTES_MAX: u64 = 64 << 10;

/// `git archive` writes one, for the commit.
const GLOBAL_HEADERS_MAX: u32 = 16;

/// The largest size that fits into a plain header.
const PLAIN_SIZE_MAX: u64 = 0o777_7777_7777;

#[derive(Debug, Default)]
pub(super) struct ExtendedHeaders {
    long_name: Option<Vec<u8>>,
    pax: Option<Pax>,
    global_headers: u32,
}

/// The pax records that matter here; owners, times and attributes are not extracted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pax {
    path: Option<Vec<u8>>,
    bytes: Option<u64>,
}

/// Name and size of an entry, from all of its headers.
pub(super) struct EntryMeta {
    pub(super) name: Vec<u8>,
    pub(super) bytes: u64,
}

impl ExtendedHeaders {
    /// Reads an extended header, if this is one.
    pub(super) fn read(
        &mut self,
        header: &Header,
        stream: &mut dyn Read,
        reader: &mut EntryReader<'_>,
    ) -> Result<bool, ArchiveError> {
        let [flag] = header.as_old().linkflag;
        match flag {
            b'L' => {
                self.check_alone()?;
                let mut name = content(header, stream, reader)?;
                // Terminated by NUL.
                if name.last() == Some(&0) {
                    name.pop();
                }
                self.long_name = Some(name);
            }
            b'x' => {
                self.check_alone()?;
                self.pax = Some(Pax::parse(&content(header, stream, reader)?)?);
            }
            b'g' => {
                self.global_headers += 1;
                if self.global_headers > GLOBAL_HEADERS_MAX {
                    return Err(ArchiveError::unsupported(
                        WHOLE,
                        "a tar with more than 16 global headers",
                    ));
                }
                if Pax::parse(&content(header, stream, reader)?)? != Pax::default() {
                    return Err(ArchiveError::unsupported(WHOLE, "a path or size for all entries"));
                }
            }
            b'K' => return Err(ArchiveError::not_a_file(header.path_bytes(), "a link")),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Combines `header` with the extended headers before it.
    pub(super) fn take(&mut self, header: &Header) -> Result<EntryMeta, ArchiveError> {
        let pax = self.pax.take().unwrap_or_default();
        let name = self.long_name.take().or(pax.path);
        let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
        let plain = size(header)?;
        let bytes = pax.bytes.unwrap_or(plain);
        // Programs differ in which size they follow, and so in where the next header is.
        if bytes != plain && bytes <= PLAIN_SIZE_MAX {
            return Err(ArchiveError::contradiction(&name, "it has two sizes"));
        }
        Ok(EntryMeta { name, bytes })
    }

    pub(super) fn is_pending(&self) -> bool {
        self.long_name.is_some() || self.pax.is_some()
    }

    /// Rejects a second extended header, because programs differ in which one they follow.
    fn check_alone(&self) -> Result<(), ArchiveError> {
        if self.is_pending() {
            let what = "two extended headers are for one entry";
            return Err(ArchiveError::contradiction(WHOLE, what));
        }
        Ok(())
    }
}

impl Pax {
    /// Parses records such as `12 path=a/b\n`. The length covers the whole record.
    fn parse(mut records: &[u8]) -> Result<Self, ArchiveError> {
        let mut pax = Self::default();
        while !records.is_empty() {
            let (key, value, rest) = next_record(records)
                .ok_or_else(|| ArchiveError::damaged(WHOLE, "a pax header is invalid"))?;
            pax.take(key, value)?;
            records = rest;
        }
        Ok(pax)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        let again = match key {
            b"path" => self.path.replace(value.to_owned()).is_some(),
            b"size" => {
                let bytes = number(value)
                    .ok_or_else(|| ArchiveError::damaged(WHOLE, "a pax size is not a number"))?;
                self.bytes.replace(bytes).is_some()
            }
            b"linkpath" => return Err(ArchiveError::not_a_file(WHOLE, "a link")),
            _ if key.starts_with(b"GNU.sparse.") => {
                return Err(ArchiveError::not_a_file(WHOLE, "a sparse file"));
            }
            _ => false,
        };
        if again {
            return Err(ArchiveError::contradiction(WHOLE, "a pax header repeats a key"));
        }
        Ok(())
    }
}

/// Returns the key and value of the first record, and the remaining records.
fn next_record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let digits = records.iter().position(|byte| *byte == b' ')?;
    let length = usize::try_from(number(records.get(..digits)?)?).ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    let record = record.get(digits + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((record.get(..equals)?, record.get(equals + 1..)?, rest))
}

/// Parses digits only; `parse` alone would accept a sign.
fn number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn size(header: &Header) -> Result<u64, ArchiveError> {
    let damaged = |_| ArchiveError::damaged(header.path_bytes(), "its size is invalid");
    header.entry_size().map_err(damaged)
}

fn content(
    header: &Header,
    stream: &mut dyn Read,
    reader: &mut EntryReader<'_>,
) -> Result<Vec<u8>, ArchiveError> {
    let bytes = size(header)?;
    if bytes > EXTENDED_BYTES_MAX {
        return Err(ArchiveError::unsupported(WHOLE, "an extended header of more than 64 KiB"));
    }
    reader.admit(bytes, WHOLE)?;
    let mut content = vec![0; usize::try_from(bytes).unwrap_or_default()];
    fill(stream, &mut content, WHOLE)?;
    skip_padding(stream, bytes, WHOLE)?;
    Ok(content)
}
