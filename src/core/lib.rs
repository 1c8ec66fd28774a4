//! The sans-I/O heart of Patchkeep: what one tab knows about the patches it was handed, and what it may say of them.
//!
//! Nothing here reads a clock, draws a random number, waits or talks to JavaScript: time, fresh ids and randomness
//! arrive inside inputs, and everything to be done leaves as an output. The rules cited (J1, K5, R7 …) are those of
//! the Patchkeep protocol, version 1.
//!
//! | module | concept |
//! | --- | --- |
//! | [`json`], [`canonical`], [`digest`] | strict JSON, RFC 8785 and the digests of §11 |
//! | [`ids`], [`time`], [`error`] | the words of §1, clocks, stable codes |
//! | [`frame`] | the frames of §3, both directions |
//! | [`edit`] | the reference bodies of §10 |
//! | [`storage`], [`journal`] | what is written durably, and one patch's record (§4) |
//! | [`outbox`] | the tab's own writes (§8) |
//! | [`tab`], [`session`] | the machines: connection, documents, saves, and the session that joins them |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod canonical;
pub mod digest;
pub mod edit;
pub mod error;
pub mod frame;
pub mod ids;
pub mod journal;
pub mod json;
mod map;
pub mod outbox;
pub mod session;
pub mod storage;
pub mod tab;
pub mod time;
