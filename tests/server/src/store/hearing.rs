//! Hearing what other processes on the PostgreSQL database say, on a connection of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use postgres::NoTls;
use postgres::fallible_iterator::FallibleIterator as _;

use super::limits::Limits;
use super::{Hear, Word};

/// One channel for each schema.
pub(super) const CHANNEL: &str = "'patchkeep_' || CAST(abs(CAST(hashtext(current_schema()) AS BIGINT)) AS TEXT)";
/// The first half of the locks that living processes hold; the second is the process.
pub(super) const PROCESSES: u32 = 1_886_547_052;
/// How long a start waits for the listener.
const LISTEN_WITHIN: Duration = Duration::from_secs(5);
/// How often a listener looks whether it is to end, and how long it waits before it connects again.
const LISTEN_AGAIN: Duration = Duration::from_millis(200);

/// What a listener needs.
pub(super) struct Ears {
    pub(super) config: postgres::Config,
    pub(super) limits: Limits,
    /// Which process it is.
    pub(super) process: u64,
    /// The store was closed.
    pub(super) over: Arc<AtomicBool>,
}

/// Listens on a thread of its own until it is over; returns once it does for the first time.
pub(super) fn listen(ears: Ears, hear: Hear) {
    let (begun, begins) = mpsc::channel();
    let listening = move || {
        let mut times = 0;
        while !ears.over.load(Ordering::SeqCst) {
            let listens = || {
                // Whoever started this waits for the first time alone.
                let _heard = begun.send(());
                if times > 0 {
                    hear(Word::Missed);
                }
            };
            if let Err(error) = hear_until(&ears, &hear, listens) {
                tracing::debug!(%error, "not listening to other processes");
                std::thread::sleep(LISTEN_AGAIN);
            }
            times += 1;
        }
    };
    if let Err(error) = std::thread::Builder::new().name("patchkeep-listen".into()).spawn(listening) {
        tracing::warn!(%error, "other processes are not heard");
    }
    // A tab that connects to this process right away is elected by the others right away.
    if begins.recv_timeout(LISTEN_WITHIN).is_err() {
        tracing::warn!("other processes are not heard yet");
    }
}

/// Listens until the connection is lost or the store closed.
fn hear_until(ears: &Ears, hear: &Hear, listens: impl FnOnce()) -> Result<(), postgres::Error> {
    let Ears { config, limits, process, over } = ears;
    let mut client = config.connect(NoTls)?;
    client.batch_execute(&limits.session())?;
    let channel: String = client.query_one(&format!("SELECT {CHANNEL}"), &[])?.try_get(0)?;
    // Whoever holds that lock hears: it goes with the connection, however the process ends. Shared, so that what is left
    // of an older connection of this process is not waited for.
    client.batch_execute(&format!("LISTEN {channel}; SELECT pg_advisory_lock_shared({PROCESSES}, {process})"))?;
    listens();
    let own = process.to_string();
    while !over.load(Ordering::SeqCst) {
        {
            let mut notifications = client.notifications();
            let mut told = notifications.timeout_iter(LISTEN_AGAIN);
            while let Some(notification) = told.next()? {
                // What this process says comes back to it.
                let said = notification.payload().split_once(' ').filter(|(by, _)| *by != own);
                if let Some(word) = said.and_then(|(_, word)| Word::read(word)) {
                    hear(word);
                }
            }
        }
        if client.is_closed() {
            return Ok(());
        }
    }
    Ok(())
}
