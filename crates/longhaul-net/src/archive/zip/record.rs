//! Central and local headers of a zip entry.

use std::io::Read;

use super::super::ArchiveError;
use super::super::bounded_read::{ByteFields, fill, read_array};
use super::super::error::WHOLE;

const CENTRAL_SIGNATURE: &[u8] = b"PK\x01\x02";
const CENTRAL_BYTES: usize = 46;
const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";
const LOCAL_BYTES: usize = 30;
const DESCRIPTOR_SIGNATURE: &[u8] = b"PK\x07\x08";

/// Encryption, strong encryption, encrypted headers.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const DESCRIPTOR: u16 = 1 << 3;
const PATCH: u16 = 1 << 5;

const ZIP64: u16 = 0x0001;
const UNICODE_PATH: u16 = 0x7075;

/// In place of a number that has no room: it is in the zip64 field.
const FULL: u64 = u32::MAX as u64;

/// Directory record of an entry.
#[derive(Debug)]
pub(super) struct CentralHeader {
    flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) packed: u64,
    pub(super) unpacked: u64,
    /// Offset of the local header.
    pub(super) offset: u64,
    pub(super) name: Vec<u8>,
    /// Unix mode, or 0.
    pub(super) mode: u32,
    pub(super) is_dos_folder: bool,
    /// Length of the record.
    pub(super) bytes: u64,
}

/// Header in front of the content of an entry.
#[derive(Debug)]
pub(super) struct LocalHeader {
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    unpacked: u64,
    name: Vec<u8>,
    pub(super) extra_bytes: u64,
}

impl CentralHeader {
    pub(super) fn read(archive: &mut impl Read) -> Result<Self, ArchiveError> {
        let damaged = || ArchiveError::damaged(WHOLE, "its directory is invalid");
        let fixed = read_array::<CENTRAL_BYTES>(archive)?;
        let (mut record, rest) = Self::parse(&fixed).ok_or_else(damaged)?;
        record.name = read_vec(archive, rest.name)?;
        let extra = read_vec(archive, rest.extra)?;
        read_vec(archive, rest.comment)?;
        let invalid = || ArchiveError::contradiction(&record.name, "its zip64 sizes are invalid");
        let zip64 = extras(&extra, &record.name)?;
        let numbers = [record.unpacked, record.packed, record.offset];
        let [unpacked, packed, offset] = enlarged(numbers, zip64).ok_or_else(invalid)?;
        Ok(Self { packed, unpacked, offset, ..record })
    }

    fn parse(fixed: &[u8]) -> Option<(Self, Lengths)> {
        let mut fields = ByteFields(fixed);
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

    /// Returns true if sizes and checksum follow the content.
    pub(super) fn has_descriptor(&self) -> bool {
        self.flags & DESCRIPTOR != 0
    }

    /// Returns the minimal length of the entry: header, name and content.
    pub(super) fn bytes_min(&self) -> u64 {
        self.packed.saturating_add((LOCAL_BYTES + self.name.len()) as u64)
    }

    /// Returns the expected data descriptor in one of its forms.
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

impl LocalHeader {
    pub(super) fn read(
        archive: &mut impl Read,
        central: &CentralHeader,
    ) -> Result<Self, ArchiveError> {
        let fixed = read_array::<LOCAL_BYTES>(archive)?;
        let contradiction = |what| ArchiveError::contradiction(&central.name, what);
        let (mut local, rest) = Self::parse(&fixed)
            .ok_or_else(|| contradiction("its offset in the directory is wrong"))?;
        local.name = read_vec(archive, rest.name)?;
        let extra = read_vec(archive, rest.extra)?;
        if let Some(zip64) = extras(&extra, &local.name)? {
            // A local zip64 field always has both sizes.
            let numbers = [local.unpacked, local.packed];
            let [unpacked, packed] = both(numbers, zip64)
                .ok_or_else(|| contradiction("its local zip64 sizes are invalid"))?;
            (local.unpacked, local.packed) = (unpacked, packed);
        }
        Ok(local)
    }

    fn parse(fixed: &[u8]) -> Option<(Self, Lengths)> {
        let mut fields = ByteFields(fixed);
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

    /// Compares it with the directory. Values of the data descriptor may be 0 here.
    pub(super) fn check(&self, central: &CentralHeader) -> Result<(), ArchiveError> {
        let later = central.has_descriptor();
        let agree = |here: u64, there: u64| here == there || (later && here == 0);
        let compared = ENCRYPTED | DESCRIPTOR | PATCH;
        let what = if self.name != central.name {
            "it has two names"
        } else if self.method != central.method {
            "it has two compression methods"
        } else if self.flags & compared != central.flags & compared {
            "it has two different sets of flags"
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

/// Returns the zip64 field among the extra fields. A different name in them is rejected, because some
/// programs use it.
fn extras<'e>(extra: &'e [u8], name: &[u8]) -> Result<Option<&'e [u8]>, ArchiveError> {
    let damaged = || ArchiveError::damaged(name, "its extra fields are invalid");
    let mut fields = ByteFields(extra);
    let mut zip64 = None;
    // Some writers pad with zeros to align the content.
    while fields.0.iter().any(|byte| *byte != 0) {
        let id = fields.u16().ok_or_else(damaged)?;
        let bytes = fields.u16().ok_or_else(damaged)?;
        let value = fields.bytes(bytes.into()).ok_or_else(damaged)?;
        match id {
            ZIP64 if zip64.replace(value).is_some() => {
                return Err(ArchiveError::contradiction(name, "it has two zip64 fields"));
            }
            // Version, checksum of the name, name.
            UNICODE_PATH if value.get(5..) != Some(name) => {
                return Err(ArchiveError::contradiction(name, "it has two names"));
            }
            _ => {}
        }
    }
    Ok(zip64)
}

/// Replaces marked numbers by those of the zip64 field, which must have these, in this order, and no more.
fn enlarged<const N: usize>(mut numbers: [u64; N], zip64: Option<&[u8]>) -> Option<[u64; N]> {
    let mut fields = ByteFields(zip64.unwrap_or_default());
    for number in numbers.iter_mut().filter(|number| **number == FULL) {
        *number = fields.u64()?;
    }
    fields.0.is_empty().then_some(numbers)
}

/// Returns the sizes of a local zip64 field, which must match the plain ones.
fn both(plain: [u64; 2], zip64: &[u8]) -> Option<[u64; 2]> {
    let mut fields = ByteFields(zip64);
    let large = [fields.u64()?, fields.u64()?];
    let agree = plain.iter().zip(large).all(|(plain, large)| *plain == FULL || *plain == large);
    (agree && fields.0.is_empty()).then_some(large)
}
