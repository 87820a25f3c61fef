//! Chats: targets on real sockets that do as they are told, and callers as models' own servers have them.

mod calls;
pub(crate) mod desk;
mod models;
mod states;
mod streams;
pub(crate) mod target;
mod waiting;
