//! Layout of markdown labels.
