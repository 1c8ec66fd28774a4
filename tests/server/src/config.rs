//! What a server is started with.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use patchkeep_core::frame::DEFAULT_MAX_FRAME_BYTES;

use crate::principal::Principal;
use crate::store::{Clock, Limits, system_clock};

/// A bearer token. It is compared in constant time and never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether this is the presented one; takes as long whatever differs.
    pub fn matches(&self, presented: &str) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.0.as_bytes(), presented.as_bytes()).into()
    }

    /// Its text, for the demo page alone.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What a server is started with.
#[derive(Clone)]
pub struct Config {
    /// The SQLite file, where there is no `database_url`.
    pub db: PathBuf,
    /// The PostgreSQL database.
    pub database_url: Option<String>,
    /// How long one process on it may keep the others waiting.
    pub database_limits: Limits,
    /// Added to PostgreSQL's clock: time passes when a test says so.
    pub database_shift: Option<Clock>,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who may come in.
    pub tokens: Vec<(Token, Principal)>,
    /// Documents to make where they do not exist yet, in the first token's workspace.
    pub seed: Vec<(String, String)>,
    /// Origins whose pages may use the API and the socket; empty: the server's own page, and everything without one.
    pub origins: Vec<String>,
    /// A folder of static files to serve at `/`.
    pub www: Option<PathBuf>,
    /// Whether `/demo.json` hands the first token to pages on this machine.
    pub demo: bool,
    /// Whether `/faults` is there.
    pub faults: bool,
    /// How long a tab has to answer for a patch, in ms (S6).
    pub patch_timeout_ms: u64,
    /// How long a claim lives, in ms (S1).
    pub lease_ms: u64,
    /// How long settled keys are kept at least, in ms (S9).
    pub key_ttl_ms: u64,
    /// How long what a tab leaves behind is kept at least, in ms: as long as a tab keeps its own (J10).
    pub tab_ttl_ms: u64,
    /// How often a tab pings, in ms.
    pub heartbeat_ms: u64,
    /// The largest frame either side sends, in bytes.
    pub max_frame_bytes: usize,
    /// The largest document, in bytes.
    pub max_doc_bytes: usize,
    /// How many keys of one user may be open (claimed, delivered, acked, unknown) before another is claimed.
    pub max_open_keys: u64,
    /// How many sockets one user may have open.
    pub max_sockets: usize,
    /// How many documents one socket may have open.
    pub max_open_docs: usize,
    /// How many connections there are at once.
    pub max_connections: usize,
    /// How long a request's head may take to come, in ms.
    pub head_timeout_ms: u64,
    /// How long its body may, in ms.
    pub body_timeout_ms: u64,
    /// How long requests under way may take once the server ends, in ms.
    pub drain_ms: u64,
    /// How much waits for a tab that does not read, in bytes, before its socket is cut.
    pub max_queue_bytes: usize,
    /// The clock of the SQLite database.
    pub clock: Clock,
}

impl Config {
    /// The defaults for a database file: loopback, a free port, no tokens, nothing optional.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self {
            db: db.into(),
            database_url: None,
            database_limits: Limits::default(),
            database_shift: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tokens: Vec::new(),
            seed: Vec::new(),
            origins: Vec::new(),
            www: None,
            demo: false,
            faults: false,
            patch_timeout_ms: 10_000,
            lease_ms: 15_000,
            key_ttl_ms: 24 * 60 * 60 * 1000,
            tab_ttl_ms: 30 * 24 * 60 * 60 * 1000,
            heartbeat_ms: 15_000,
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
            max_doc_bytes: 8 << 20,
            max_open_keys: 10_000,
            max_sockets: 256,
            max_open_docs: 1000,
            max_connections: 4096,
            head_timeout_ms: 20_000,
            body_timeout_ms: 60_000,
            drain_ms: 5_000,
            max_queue_bytes: 32 << 20,
            clock: system_clock(),
        }
    }

    /// The largest edit that still fits into a frame with everything around it, in bytes.
    pub(crate) fn max_edit_bytes(&self) -> usize {
        self.max_frame_bytes.saturating_sub(FRAME_OVERHEAD)
    }

    /// The largest request body, in bytes: a document as JSON, where each byte may need six.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.max_doc_bytes.saturating_mul(2).max(64 * 1024)
    }
}

/// What a `patch` frame holds beside its body: ids, numbers, and a document id with every byte escaped.
const FRAME_OVERHEAD: usize = 4096;

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("db", &self.db).field("listen", &self.listen).finish_non_exhaustive()
    }
}
