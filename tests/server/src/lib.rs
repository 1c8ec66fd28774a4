//! The reference server of Patchkeep: documents, keyed edits, saves and the tabs' socket on SQLite or PostgreSQL, by the
//! rules S1–S11, W1–W4 and R1–R7 of the protocol.
//!
//! | module | concept |
//! | --- | --- |
//! | [`decide`] | the decisions of §9, pure functions over rows |
//! | [`store`] | the transaction's vocabulary, and SQLite or PostgreSQL behind it |
//! | `service` | units of work: read rows, decide, write, and speak after the commit |
//! | [`edit`] | the edits of §10 on stored text |
//! | [`own`] | a team's own writes behind a key |
//! | [`http`] | the routes and the socket |
//! | [`agent`] | the command line that writes with an op key |
//!
//! [`Server::start`] listens in this process; [`http::router`] can be mounted elsewhere.
#![forbid(unsafe_code)]

pub mod agent;
mod app;
mod config;
pub mod decide;
pub mod edit;
mod faults;
pub mod http;
mod hub;
mod listen;
pub mod net;
pub mod own;
pub mod principal;
mod server;
mod service;
mod sockets;
pub mod store;
mod tickets;
mod waiters;
mod way_out;

pub use app::App;
pub use config::{Config, Token};
pub use faults::{Faults, Point, Switches};
pub use own::{Claimed, KeyedRequest, keyed};
pub use server::{Server, StartError};
