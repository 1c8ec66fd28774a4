//! The browser under Patchkeep's core. Nothing here decides anything about the protocol: what happens is handed to the
//! core as an input, what the core says is done, and the time is read where it is needed.
//!
//! | module | platform |
//! | --- | --- |
//! | [`driver`], [`host`] | the run loop, and what it asks of the embedding program |
//! | [`open`] | from options to a running driver: storage, identity, journal |
//! | [`store`], [`idb`], [`memory`] | the journal's storage, durable or not |
//! | [`identity`] | who this tab is (T1–T3): `sessionStorage` and Web Locks |
//! | [`socket`], [`fetch`] | the connection, and saves |
//! | [`clock`], [`random`], [`timers`], [`lifecycle`] | time, randomness, the page's life |
//! | [`globals`], [`oneshot`] | small tools |

pub mod clock;
pub mod driver;
pub mod fetch;
pub mod globals;
pub mod host;
pub mod idb;
pub mod identity;
pub mod lifecycle;
pub mod memory;
pub mod oneshot;
pub mod open;
pub mod random;
pub mod socket;
pub mod store;
pub mod timers;
