//! Archive builders, including archives that no library would write.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};

pub(super) const SYMLINK: u32 = 0o120_777 << 16;

/// Local and central header of a zip entry.
#[derive(Clone)]
pub(super) struct EndRecord {
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) packed: u32,
    pub(super) unpacked: u32,
    pub(super) name: Vec<u8>,
    pub(super) extra: Vec<u8>,
}

#[derive(Clone)]
pub(super) struct ZipEntry {
    pub(super) local: EndRecord,
    pub(super) central: EndRecord,
    pub(super) attributes: u32,
    /// Wrong offset for the directory.
    pub(super) offset: Option<u32>,
    pub(super) data: Vec<u8>,
    /// Between its content and the next entry.
    pub(super) behind: Vec<u8>,
}

pub(super) fn stored(name: impl AsRef<[u8]>, content: &[u8]) -> ZipEntry {
    entry(name.as_ref(), 0, content, content.to_vec())
}

pub(super) fn deflated(name: impl AsRef<[u8]>, content: &[u8]) -> ZipEntry {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    entry(name.as_ref(), 8, content, encoder.finish().unwrap())
}

fn entry(name: &[u8], method: u16, content: &[u8], data: Vec<u8>) -> ZipEntry {
    let mut crc = flate2::Crc::new();
    crc.update(content);
    let record_values = EndRecord {
        flags: 0,
        method,
        crc: crc.sum(),
        packed: data.len().try_into().unwrap(),
        unpacked: content.len().try_into().unwrap(),
        name: name.to_vec(),
        extra: Vec::new(),
    };
    let (local, central, behind) = (record_values.clone(), record_values, Vec::new());
    ZipEntry { local, central, attributes: 0, offset: None, data, behind }
}

impl ZipEntry {
    /// The same change in both headers, so that they still match.
    pub(super) fn both(mut self, change: impl Fn(&mut EndRecord)) -> Self {
        change(&mut self.local);
        change(&mut self.central);
        self
    }

    pub(super) fn attributes(mut self, attributes: u32) -> Self {
        self.attributes = attributes;
        self
    }

    pub(super) fn local_bytes(&self) -> Vec<u8> {
        let record_values = &self.local;
        let lengths = [record_values.name.len(), record_values.extra.len()].map(le16);
        let mut bytes = b"PK\x03\x04\x14\0".to_vec();
        bytes.extend(record_values.fields());
        bytes.extend(lengths.concat());
        bytes.extend(
            [&*record_values.name, &*record_values.extra, &*self.data, &*self.behind].concat(),
        );
        bytes
    }

    pub(super) fn central_bytes(&self, offset: u32) -> Vec<u8> {
        let record_values = &self.central;
        let lengths = [record_values.name.len(), record_values.extra.len(), 0, 0, 0].map(le16);
        let mut bytes = b"PK\x01\x02\x14\x03\x14\0".to_vec();
        bytes.extend(record_values.fields());
        bytes.extend(lengths.concat());
        bytes.extend(self.attributes.to_le_bytes());
        bytes.extend(self.offset.unwrap_or(offset).to_le_bytes());
        bytes.extend([&*record_values.name, &*record_values.extra].concat());
        bytes
    }
}

impl EndRecord {
    fn fields(&self) -> Vec<u8> {
        let mut bytes = [self.flags.to_le_bytes(), self.method.to_le_bytes()].concat();
        bytes.extend([0; 4]);
        for number in [self.crc, self.packed, self.unpacked] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }
}

/// Parts of a zip, to be combined in other ways.
pub(super) struct Parts {
    pub(super) entries: Vec<u8>,
    pub(super) directory: Vec<u8>,
    pub(super) count: u16,
}

pub(super) fn parts(list: &[ZipEntry]) -> Parts {
    let (mut entries, mut directory) = (Vec::new(), Vec::new());
    for entry in list {
        directory.extend(entry.central_bytes(entries.len().try_into().unwrap()));
        entries.extend(entry.local_bytes());
    }
    Parts { entries, directory, count: list.len().try_into().unwrap() }
}

pub(super) fn zip(list: &[ZipEntry]) -> Vec<u8> {
    let Parts { entries, directory, count } = parts(list);
    let end = end(count, directory.len(), entries.len(), b"");
    [entries, directory, end].concat()
}

pub(super) fn end(
    count: u16,
    directory_bytes: usize,
    directory_at: usize,
    comment: &[u8],
) -> Vec<u8> {
    let mut bytes = b"PK\x05\x06\0\0\0\0".to_vec();
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend([directory_bytes, directory_at].map(le32).concat());
    bytes.extend(le16(comment.len()));
    bytes.extend(comment);
    bytes
}

/// The zip64 end record with its locator, for the plain one at `at`.
pub(super) fn zip64_end(count: u64, directory_bytes: u64, directory_at: u64, at: u64) -> Vec<u8> {
    let mut bytes = b"PK\x06\x06".to_vec();
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend(b"\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    for number in [count, count, directory_bytes, directory_at] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend(at.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes
}

fn le16(number: usize) -> [u8; 2] {
    u16::try_from(number).unwrap().to_le_bytes()
}

fn le32(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_le_bytes()
}

/// A field of extra data.
pub(super) fn extra(id: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [id.to_le_bytes(), le16(value.len())].concat();
    bytes.extend(value);
    bytes
}

/// One header of a tar and what is behind it.
pub(super) fn tar_entry(flag: u8, name: impl AsRef<[u8]>, content: &[u8]) -> Vec<u8> {
    tar_entry_sized(flag, name, content, content.len() as u64)
}

/// With a size that need not be the content's.
pub(super) fn tar_entry_sized(
    flag: u8,
    name: impl AsRef<[u8]>,
    content: &[u8],
    bytes: u64,
) -> Vec<u8> {
    let mut header = ::tar::Header::new_ustar();
    let name = name.as_ref();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkflag = [flag];
    header.set_mode(0o755);
    header.set_size(bytes);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// A tar of such entries, with its end.
pub(super) fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.extend([0; 1_024]);
    bytes
}

/// A record of a pax header.
pub(super) fn pax(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (1..9)
        .map(|digits| rest + digits)
        .find(|length| length.to_string().len() + rest == *length);
    format!("{} {key}={value}\n", length.unwrap()).into_bytes()
}

pub(super) fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zst(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
