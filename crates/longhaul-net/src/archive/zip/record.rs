//! What a zip says of one entry, in its directory and in front of the entry itself.

use std::io::Read;

use super::super::ArchiveError;
use super::super::bounded_read::{Fields, fill};
use super::super::error::WHOLE;

const CENTRAL_SIGNATURE: &[u8] = b"PK\x01\x02";
const CENTRAL_BYTES: usize = 46;
const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";
const LOCAL_BYTES: usize = 30;
const DESCRIPTOR_SIGNATURE: &[u8] = b"PK\x07\x08";

/// Encrypted, encrypted better, or with its headers encrypted.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const DESCRIPTOR: u16 = 1 << 3;
const PATCH: u16 = 1 << 5;

const ZIP64: u16 = 0x0001;
const UNICODE_PATH: u16 = 0x7075;

/// In place of a number that has no room: it is in the zip64 field.
const FULL: u64 = u32::MAX as u64;

/// An entry as the directory lists it.
#[derive(Debug)]
pub(super) struct Central {
    flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) packed: u64,
    pub(super) unpacked: u64,
    /// Where its local header is.
    pub(super) offset: u64,
    pub(super) name: Vec<u8>,
    /// As on Unix; 0 if nobody said.
    pub(super) mode: u32,
    pub(super) is_dos_folder: bool,
    /// How long the record itself is.
    pub(super) bytes: u64,
}

/// An entry as it says itself.
#[derive(Debug)]
pub(super) struct Local {
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    unpacked: u64,
    name: Vec<u8>,
    pub(super) extra_bytes: u64,
}

impl Central {
    pub(super) fn read(archive: &mut impl Read) -> Result<Self, ArchiveError> {
        let mut fixed = [0; CENTRAL_BYTES];
        fill(archive, &mut fixed, WHOLE)?;
        let damaged = || ArchiveError::damaged(WHOLE, "its directory cannot be read");
        let (mut record, rest) = Self::parse(&fixed).ok_or_else(damaged)?;
        record.name = read_vec(archive, rest.name)?;
        let extra = read_vec(archive, rest.extra)?;
        read_vec(archive, rest.comment)?;
        let lie = || ArchiveError::contradiction(&record.name, "its zip64 sizes are no such");
        let zip64 = extras(&extra, &record.name)?;
        let numbers = [record.unpacked, record.packed, record.offset];
        let [unpacked, packed, offset] = enlarged(numbers, zip64).ok_or_else(lie)?;
        Ok(Self { packed, unpacked, offset, ..record })
    }

    fn parse(fixed: &[u8]) -> Option<(Self, Lengths)> {
        let mut fields = Fields(fixed);
        if fields.bytes(CENTRAL_SIGNATURE.len())? != CENTRAL_SIGNATURE {
            return None;
        }
        fields.u32()?; // versions
        let (flags, method) = (fields.u16()?, fields.u16()?);
        fields.u32()?; // time
        let crc = fields.u32()?;
        let (packed, unpacked) = (fields.u32()?.into(), fields.u32()?.into());
        let (name, extra, comment) = (fields.u16()?, fields.u16()?, fields.u16()?);
        let disk = fields.u16()?;
        fields.u16()?; // internal attributes
        let attributes = fields.u32()?;
        let offset = fields.u32()?.into();
        let lengths = [name, extra, comment].map(u64::from);
        let record = Self {
            flags,
            method,
            crc,
            packed,
            unpacked,
            offset,
            name: Vec::new(),
            mode: attributes >> 16,
            is_dos_folder: attributes & 0x10 != 0,
            bytes: CENTRAL_BYTES as u64 + lengths.iter().sum::<u64>(),
        };
        (disk == 0).then_some((record, Lengths { name, extra, comment }))
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.flags & ENCRYPTED != 0
    }

    pub(super) fn is_patch(&self) -> bool {
        self.flags & PATCH != 0
    }

    /// Whether sizes and checksum are behind the content.
    pub(super) fn has_descriptor(&self) -> bool {
        self.flags & DESCRIPTOR != 0
    }

    /// What the entry takes in the file at least: its header, its name and its content.
    pub(super) fn bytes_min(&self) -> u64 {
        self.packed.saturating_add((LOCAL_BYTES + self.name.len()) as u64)
    }

    /// What has to be behind the content, in one of its forms.
    pub(super) fn descriptor(&self, large: bool, signed: bool) -> Vec<u8> {
        let mut bytes = if signed { DESCRIPTOR_SIGNATURE.to_vec() } else { Vec::new() };
        bytes.extend(self.crc.to_le_bytes());
        for size in [self.packed, self.unpacked] {
            let size = size.to_le_bytes();
            bytes.extend(size.iter().take(if large { 8 } else { 4 }));
        }
        bytes
    }
}

impl Local {
    pub(super) fn read(archive: &mut impl Read, central: &Central) -> Result<Self, ArchiveError> {
        let mut fixed = [0; LOCAL_BYTES];
        fill(archive, &mut fixed, WHOLE)?;
        let contradiction = |what| ArchiveError::contradiction(&central.name, what);
        let (mut local, rest) = Self::parse(&fixed)
            .ok_or_else(|| contradiction("it is not where the directory says"))?;
        local.name = read_vec(archive, rest.name)?;
        let extra = read_vec(archive, rest.extra)?;
        if let Some(zip64) = extras(&extra, &local.name)? {
            // Here it always has both sizes.
            let numbers = [local.unpacked, local.packed];
            let [unpacked, packed] = both(numbers, zip64)
                .ok_or_else(|| contradiction("its own zip64 sizes are no such"))?;
            (local.unpacked, local.packed) = (unpacked, packed);
        }
        Ok(local)
    }

    fn parse(fixed: &[u8]) -> Option<(Self, Lengths)> {
        let mut fields = Fields(fixed);
        if fields.bytes(LOCAL_SIGNATURE.len())? != LOCAL_SIGNATURE {
            return None;
        }
        fields.u16()?; // version
        let (flags, method) = (fields.u16()?, fields.u16()?);
        fields.u32()?; // time
        let crc = fields.u32()?;
        let (packed, unpacked) = (fields.u32()?.into(), fields.u32()?.into());
        let (name, extra) = (fields.u16()?, fields.u16()?);
        let extra_bytes = extra.into();
        let local = Self { flags, method, crc, packed, unpacked, name: Vec::new(), extra_bytes };
        Some((local, Lengths { name, extra, comment: 0 }))
    }

    /// Whether it says what the directory says. What comes behind the content may be 0 here.
    pub(super) fn check(&self, central: &Central) -> Result<(), ArchiveError> {
        let later = central.has_descriptor();
        let agree = |here: u64, there: u64| here == there || (later && here == 0);
        let compared = ENCRYPTED | DESCRIPTOR | PATCH;
        let what = if self.name != central.name {
            "it has two names"
        } else if self.method != central.method {
            "it has two compression methods"
        } else if self.flags & compared != central.flags & compared {
            "it has two sets of flags"
        } else if !agree(self.crc.into(), central.crc.into()) {
            "it has two checksums"
        } else if !agree(self.packed, central.packed) || !agree(self.unpacked, central.unpacked) {
            "it has two sizes"
        } else {
            return Ok(());
        };
        Err(ArchiveError::contradiction(&central.name, what))
    }
}

struct Lengths {
    name: u16,
    extra: u16,
    comment: u16,
}

fn read_vec(archive: &mut impl Read, bytes: u16) -> Result<Vec<u8>, ArchiveError> {
    let mut vec = vec![0; bytes.into()];
    fill(archive, &mut vec, WHOLE)?;
    Ok(vec)
}

/// Goes through the extra fields for the zip64 one. Another name in them is refused, since some
/// programs take it for the real one.
fn extras<'e>(extra: &'e [u8], name: &[u8]) -> Result<Option<&'e [u8]>, ArchiveError> {
    let damaged = || ArchiveError::damaged(name, "its extra fields cannot be read");
    let mut fields = Fields(extra);
    let mut zip64 = None;
    // Some writers fill up with zeros, to have the content at a round offset.
    while fields.0.iter().any(|byte| *byte != 0) {
        let id = fields.u16().ok_or_else(damaged)?;
        let bytes = fields.u16().ok_or_else(damaged)?;
        let value = fields.bytes(bytes.into()).ok_or_else(damaged)?;
        match id {
            ZIP64 if zip64.replace(value).is_some() => {
                return Err(ArchiveError::contradiction(name, "it has two zip64 fields"));
            }
            // A version, a checksum of the name, the name.
            UNICODE_PATH if value.get(5..) != Some(name) => {
                return Err(ArchiveError::contradiction(name, "it has two names"));
            }
            _ => {}
        }
    }
    Ok(zip64)
}

/// The directory's numbers, with those that had no room from the zip64 field: these, in this order
/// and nothing else.
fn enlarged<const N: usize>(mut numbers: [u64; N], zip64: Option<&[u8]>) -> Option<[u64; N]> {
    let mut fields = Fields(zip64.unwrap_or_default());
    for number in numbers.iter_mut().filter(|number| **number == FULL) {
        *number = fields.u64()?;
    }
    fields.0.is_empty().then_some(numbers)
}

/// A local header's sizes, with a zip64 field that has both of them.
fn both(plain: [u64; 2], zip64: &[u8]) -> Option<[u64; 2]> {
    let mut fields = Fields(zip64);
    let large = [fields.u64()?, fields.u64()?];
    let agree = plain.iter().zip(large).all(|(plain, large)| *plain == FULL || *plain == large);
    (agree && fields.0.is_empty()).then_some(large)
}
