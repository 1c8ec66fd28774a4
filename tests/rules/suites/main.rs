//! One suite per machine; tests are named after the rules and cases they check.

mod content;
mod digests;
mod hookless;
mod journal;
mod outbox;
mod outbox_applied;
mod outbox_credentials;
mod outbox_property;
mod outbox_servers;
mod property;
mod resume;
mod retention;
mod saves;
mod support;
mod vectors;
mod wire;
