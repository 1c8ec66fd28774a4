//! The server through real sockets, on real SQLite files: one module for each group of rules.

mod agent;
mod arrows;
mod crash;
mod decisions;
mod delivery;
mod edits;
mod faults;
mod keys;
mod resume;
mod saves;
mod settle;
mod sockets;
mod store;
mod tab;
mod takeover;
mod world;
