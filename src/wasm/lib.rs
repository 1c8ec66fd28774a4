//! The surface that the npm package `patchkeep` calls: it converts and forwards. `pkg/src/engine.ts` describes the same
//! border from the other side.
//!
//! | module | what |
//! | --- | --- |
//! | [`session`] | one session: exports, all of `&self` |
//! | [`document`] | its documents, and marks of them |
//! | [`sink`] | what is asked of JavaScript, as the run loop's host |
//! | [`text`] | records, states and outcomes as JSON text |
//! | [`crash`] | a panic leaves the instance unusable; JavaScript hears of it |

pub mod crash;
pub mod document;
pub mod session;
pub mod sink;
pub mod text;
