//! Chat APIs in front of scripted model servers on real sockets.

mod availability;
mod calls;
mod chat_server;
mod models;
mod separate_api;
mod states;
mod streams;
