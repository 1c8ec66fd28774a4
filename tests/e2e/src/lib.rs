//! End to end: a real browser loads the package as it is published and talks to a server in this process. Chromium runs
//! everything; Firefox and WebKitGTK run what may differ from engine to engine.
//!
//! | module | concept |
//! | --- | --- |
//! | [`engine`] | the three engines, and the cell of the matrix that a case leaves for each |
//! | [`browser`] | a driver and one browser with a profile of its own |
//! | [`cdp`], [`crashes`] | a Chromium without a driver, killed at random steps |
//! | [`processes`] | what runs below a process, and how it is killed |
//! | [`page`] | the test page: a string document whose handlers a test writes, in JavaScript |
//! | [`mod@reference`] | the reference server in this process, and a caller that writes to it |
//! | [`raw`] | a WebSocket server that does what a test says, frame by frame, also what no sane server does |
//! | [`demo_page`] | the demo page, used as a person uses it |
//! | [`frames`] | `patch` frames with ids and digests |
//! | [`site`] | the static files: test page and package |
//! | [`story`] | the demo as processes and a page, for `demo-check` |
//! | [`wait`] | waiting for conditions; nothing here sleeps for a guessed time |

pub mod browser;
pub mod cdp;
pub mod crashes;
pub mod demo_page;
pub mod engine;
pub mod frames;
pub mod page;
pub mod processes;
pub mod raw;
pub mod reference;
pub mod site;
pub mod story;
pub mod wait;
