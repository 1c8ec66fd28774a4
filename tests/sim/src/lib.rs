//! A deterministic simulation of the whole protocol: the real core of the tab, the real decisions of the server, and
//! around them a simulated network, disk, host, clock and callers, all driven by one seed.
//!
//! | module | concept |
//! | --- | --- |
//! | [`rng`], [`profile`] | one seed; what goes wrong how often |
//! | [`world`] | the queue of events, one step at a time |
//! | [`network`] | sockets that keep order, and cuts |
//! | [`tab`] | contexts with the real session; the disk; the host's handler, hook and saves |
//! | [`server`] | rows in memory under the guards of the store, and the units of work around the real decisions |
//! | [`caller`] | who sends the keyed writes, and how answers are read (the real K5) |
//! | [`faults`] | what goes wrong |
//! | [`oracle`] | sees everything, and checks P1–P5 |
//! | [`mutants`] | deliberate bugs that the oracle must see |
#![forbid(unsafe_code)]

pub mod caller;
pub mod faults;
pub mod mutants;
pub mod network;
pub mod oracle;
pub mod profile;
pub mod rng;
pub mod server;
pub mod tab;
pub mod world;

pub use world::{Report, Sim};
