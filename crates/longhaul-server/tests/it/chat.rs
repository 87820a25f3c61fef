//! Chats: targets on real sockets that do as they are told, and callers as models' own servers have them.

mod availability;
mod calls;
mod chat_server;
mod models;
mod states;
mod streams;
