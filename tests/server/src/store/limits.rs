//! What a session of PostgreSQL goes by: set by the server, not inherited from a role, a database or a URL (S11).

use std::time::Duration;

/// How long one process may keep the others waiting, in ms. Every transaction holds the lock of the schema: a process
/// that is stopped in one is cut off before those that wait give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a transaction waits for its turn.
    pub lock_ms: u32,
    /// How long a statement may take, its waiting included.
    pub statement_ms: u32,
    /// How long a transaction may stand still between two statements.
    pub idle_ms: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lock_ms: 20_000, statement_ms: 30_000, idle_ms: 10_000 }
    }
}

/// Begins a transaction. Under another isolation level its snapshot would be from before the schema's lock was granted.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Ends the limits for one transaction: a step of the schema takes as long as there are rows, and whoever starts beside
/// it waits for that.
pub(super) const UNLIMITED: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

impl Limits {
    /// What a session runs first.
    pub(super) fn session(&self) -> String {
        let Self { lock_ms, statement_ms, idle_ms } = self;
        format!(
            "SET lock_timeout = {lock_ms};
             SET statement_timeout = {statement_ms};
             SET idle_in_transaction_session_timeout = {idle_ms};
             SET tcp_keepalives_idle = {KEEPALIVE_IDLE_S};
             SET tcp_keepalives_interval = {KEEPALIVE_EVERY_S};
             SET tcp_keepalives_count = {KEEPALIVES};
             SET tcp_user_timeout = {UNANSWERED_MS};
             SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
             SELECT set_config(name, '0', false) FROM pg_settings
             WHERE name IN ('idle_session_timeout', 'transaction_timeout')"
        )
    }
}

/// The same for this end of the connection: a database that has gone silent is not waited for for ever.
pub(super) fn bound(config: &mut postgres::Config) {
    config
        .connect_timeout(CONNECT_WITHIN)
        .tcp_user_timeout(Duration::from_millis(UNANSWERED_MS))
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(KEEPALIVE_IDLE_S))
        .keepalives_interval(Duration::from_secs(KEEPALIVE_EVERY_S))
        .keepalives_retries(KEEPALIVES);
}

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long sent bytes may stay unanswered.
const UNANSWERED_MS: u64 = 20_000;
const KEEPALIVE_IDLE_S: u64 = 10;
const KEEPALIVE_EVERY_S: u64 = 5;
const KEEPALIVES: u32 = 3;
