//! The journal in IndexedDB.
//!
//! Raw requests and callbacks: a promise awaited inside a transaction would end it. Every read-write transaction names
//! its durability, and what it got is read back from it (J1, J11).

mod codec;
mod migrations;
mod open;
mod schema;
mod store;
mod tx;

pub use codec::fault;
pub use open::Patience;
pub use schema::database_name;
pub use store::IdbStore;
