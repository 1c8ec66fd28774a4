//! The real core of one tab, driven without a browser: a world of one tab, its store and a scripted server
//! ([`world`]), and the stories of `scenarios.json` told in it ([`scenario`]).

pub mod answers;
pub mod digests;
pub mod scenario;
pub mod shop;
pub mod steps;
pub mod store;
pub mod world;
