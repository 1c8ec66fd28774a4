//! The server through real sockets, on real databases: one module for each group of rules.

mod agent;
mod agent_gateway;
mod agent_state;
mod arrows;
mod crash;
mod decisions;
mod delivery;
mod edits;
mod faults;
mod keys;
mod killed;
mod limits;
mod own;
mod place;
mod postgres;
mod processes;
mod resume;
mod saves;
mod settle;
mod slow;
mod sockets;
mod store;
mod tab;
mod takeover;
mod units;
mod world;
