//! Background maintenance: rescue, prune, blob deletion and usage.

pub(crate) mod blobs;
pub(crate) mod fence;
pub(crate) mod prune;
pub(crate) mod rescue;
pub(crate) mod usage;
