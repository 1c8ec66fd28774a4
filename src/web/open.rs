//! From options to a running session. Broken storage is no reason to fail: what is left is said (J11).

use std::rc::Rc;

use patchkeep_core::ids::JournalId;
use patchkeep_core::session::{Config, Session, Start};
use patchkeep_core::storage::{Durability, StorageFault};
use patchkeep_core::tab::Identity;
use web_sys::BinaryType;

use crate::driver::{Driver, Parts};
use crate::host::Host;
use crate::idb::{IdbStore, Patience, database_name};
use crate::identity::{Held, Place, SessionExists};
use crate::lifecycle::page_is_visible;
use crate::memory::MemoryStore;
use crate::oneshot::oneshot;
use crate::store::{Claim, Claimed, Store};
use crate::{clock, random};

/// What a session is opened with.
pub struct Options {
    /// The scope of storage and identity.
    pub principal: String,
    /// What the journal shall promise.
    pub durability: Durability,
    /// How long storage may take to open, in ms (J11).
    pub storage_timeout_ms: u64,
    /// Limits.
    pub config: Config,
    /// How binary frames are handed over.
    pub binary_type: BinaryType,
}

/// Opens a session.
///
/// # Errors
/// [`SessionExists`].
pub async fn open(options: Options, host: Rc<dyn Host>) -> Result<Rc<Driver>, SessionExists> {
    let Options { principal, durability, storage_timeout_ms, config, binary_type } = options;
    let mut place = Place::take(&principal)?;
    let told = Rc::clone(&host);
    let patience = Patience::new(storage_timeout_ms, Rc::new(move || told.storage_blocked()));
    let journal = take_journal(&principal, durability, &patience, &mut place).await;
    let Journal { store, held, claimed, durability, fault } = journal;
    let identity = Identity {
        tab_id: held.tab_id,
        epoch: claimed.epoch,
        context_id: place.context_id(),
        journal_id: claimed.journal_id,
        weak: held.weak,
    };
    let session = Session::new(Start {
        now: clock::now(),
        random: random::pair(),
        principal: principal.clone(),
        identity,
        durability,
        fault,
        records: claimed.records,
        visible: page_is_visible(),
        config,
    });
    Ok(Driver::start(Parts { session, principal, host, store, place, binary_type }))
}

struct Journal {
    store: Rc<dyn Store>,
    held: Held,
    claimed: Claimed,
    durability: Durability,
    fault: Option<StorageFault>,
}

/// Takes the journal and the tab id that belongs to it: the durable one, or one that begins now and ends with the page.
async fn take_journal(principal: &str, wanted: Durability, patience: &Patience, place: &mut Place) -> Journal {
    if wanted == Durability::Memory {
        return memory_journal(place, None).await;
    }
    let (store, is_repaired) = match IdbStore::open(database_name(principal), patience).await {
        Ok(opened) => opened,
        Err(fault) => return memory_journal(place, Some(fault)).await,
    };
    let held = place.claim(true).await;
    match claim(&store, held, wanted == Durability::Strict, Some(patience)).await {
        Ok(claimed) => {
            place.confirm(held, claimed.epoch);
            let durability = if claimed.strict { Durability::Strict } else { Durability::Relaxed };
            // What the missing stores held is gone, and the journal is as good as a new one.
            let fault = is_repaired.then_some(StorageFault::Evicted);
            Journal { store: Rc::new(store), held, claimed, durability, fault }
        }
        Err(fault) => {
            store.close();
            // An id of earlier loads whose epoch cannot be raised may not be used (T3).
            place.give_up();
            memory_journal(place, Some(fault)).await
        }
    }
}

async fn memory_journal(place: &mut Place, fault: Option<StorageFault>) -> Journal {
    let store = MemoryStore::default();
    // Nothing is resumed: the epoch of a stored id cannot be known here.
    let held = Held { remember: false, ..place.claim(false).await };
    let claimed = claim(&store, held, false, None).await.unwrap_or_else(|_| Claimed {
        epoch: held.last_epoch + 1,
        journal_id: JournalId(random::uuid()),
        records: Vec::new(),
        strict: false,
    });
    place.confirm(held, claimed.epoch);
    Journal { store: Rc::new(store), held, claimed, durability: Durability::Memory, fault }
}

async fn claim(
    store: &dyn Store,
    held: Held,
    strict: bool,
    patience: Option<&Patience>,
) -> Result<Claimed, StorageFault> {
    let (sender, receiver) = oneshot();
    let late = sender.clone();
    let _timer = patience.map(|patience| patience.timer(move || late.send(Err(StorageFault::Blocked))));
    let claim =
        Claim { tab_id: held.tab_id, fresh_journal_id: JournalId(random::uuid()), above: held.last_epoch, strict };
    store.claim(claim, Box::new(move |claimed| sender.send(claimed)));
    receiver.await
}
