//! The store over one open database, which may be lost at any time.
//!
//! ```text
//!  versionchange ───────────────────────────────► lost (newer code or deletion wants it)
//!  close, InvalidStateError, AbortError ─► reopen once ─ same journal ─► on it goes, the transaction again
//!                                               └─ another, or none ──► lost
//! ```

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::{Rc, Weak};

use patchkeep_core::ids::{JournalId, TabId};
use patchkeep_core::storage::{StorageFault, Transaction, TransactionOutcome, Write};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::spawn_local;
use web_sys::{Event, IdbDatabase, IdbVersionChangeEvent};

use super::codec::{self, fault};
use super::open::{IfMissing, OpenDatabase, Patience, open};
use super::schema::{JOURNAL_ID, META, RECORDS, TABS};
use super::tx::{self, End, Mode, Tx};
use crate::oneshot::{Receiver, oneshot};
use crate::store::{Claim, Claimed, Done, Store};

/// The journal's storage in IndexedDB.
pub struct IdbStore(Rc<Inner>);

struct Inner {
    name: String,
    database: RefCell<Option<Opened>>,
    journal_id: Cell<Option<JournalId>>,
    storage_timeout_ms: u64,
    /// Why nothing more can be stored, once that is so.
    lost: Cell<Option<StorageFault>>,
    on_lost: RefCell<Option<Done<StorageFault>>>,
}

/// A connection and what it calls when it ends. Dropping it closes it.
struct Opened {
    database: IdbDatabase,
    _version_change: Closure<dyn FnMut(IdbVersionChangeEvent)>,
    _close: Closure<dyn FnMut(Event)>,
}

impl IdbStore {
    /// Opens the database of this name, or makes it. Also returns whether it lacked stores, which are there now.
    ///
    /// # Errors
    /// Why there is none to be had (J11).
    pub async fn open(name: String, patience: &Patience) -> Result<(Self, bool), StorageFault> {
        let OpenDatabase { database, is_repaired } = open(&name, IfMissing::Create, patience).await?;
        let inner = Rc::new(Inner {
            name,
            database: RefCell::default(),
            journal_id: Cell::default(),
            storage_timeout_ms: patience.storage_timeout_ms,
            lost: Cell::default(),
            on_lost: RefCell::default(),
        });
        inner.adopt(database);
        Ok((Self(inner), is_repaired))
    }
}

impl Store for IdbStore {
    fn claim(&self, claim: Claim, done: Done<Result<Claimed, StorageFault>>) {
        let Some(database) = self.0.database() else {
            return done(Err(self.0.lost.get().unwrap_or(StorageFault::Closed)));
        };
        let inner = Rc::clone(&self.0);
        let found = Rc::new(RefCell::new(Found::default()));
        let filled = Rc::clone(&found);
        let mode = Mode::Write { strict: claim.strict };
        let issue = |tx: &Tx| issue_claim(tx, claim, &filled);
        tx::run(&database, &[META, TABS, RECORDS], mode, issue, move |end| match end {
            End::Complete { strict } => {
                let Found { epoch, journal_id, records } = found.take();
                let journal_id = journal_id.unwrap_or(claim.fresh_journal_id);
                inner.journal_id.set(Some(journal_id));
                done(Ok(Claimed { epoch, journal_id, records, strict }));
            }
            End::Aborted(error) => done(Err(fault(&error))),
        });
    }

    /// Issued in this task; only a dead connection makes it wait for another.
    fn transact(&self, transaction: Transaction, done: Done<TransactionOutcome>) {
        let inner = Rc::clone(&self.0);
        let first = inner.issue_transaction(&transaction);
        spawn_local(async move {
            let mut ended = first.await;
            if inner.is_worth_reopening(&ended).await {
                ended = inner.issue_transaction(&transaction).await;
            }
            done(ended.unwrap_or_else(|error| TransactionOutcome::Failed(inner.fault_of(&error))));
        });
    }

    fn read_epoch(&self, tab_id: TabId, done: Done<Result<u64, StorageFault>>) {
        let inner = Rc::clone(&self.0);
        let first = inner.issue_epoch_read(tab_id);
        spawn_local(async move {
            let mut ended = first.await;
            if inner.is_worth_reopening(&ended).await {
                ended = inner.issue_epoch_read(tab_id).await;
            }
            done(ended.map_err(|error| inner.fault_of(&error)));
        });
    }

    fn on_lost(&self, lost: Done<StorageFault>) {
        *self.0.on_lost.borrow_mut() = Some(lost);
    }

    /// A connection that is closed commits what is under way first.
    fn close(&self) {
        self.0.lost.set(Some(StorageFault::Closed));
        self.0.on_lost.take();
        self.0.database.take();
    }
}

#[derive(Default)]
struct Found {
    epoch: u64,
    journal_id: Option<JournalId>,
    records: Vec<String>,
}

fn issue_claim(tx: &Tx, claim: Claim, found: &Rc<RefCell<Found>>) -> Result<(), JsValue> {
    let tabs = tx.store(TABS)?;
    let key = codec::tab_key(claim.tab_id);
    let (own, aborting) = (Rc::clone(found), tx.clone());
    tx.on_result(&tabs.get(&key)?, move |stored| {
        let epoch = codec::epoch(&stored).max(claim.above) + 1;
        own.borrow_mut().epoch = epoch;
        if let Err(thrown) = tabs.put_with_key(&JsValue::from_f64(epoch as f64), &key) {
            aborting.abort_for(thrown);
        }
    });
    let meta = tx.store(META)?;
    let (own, aborting) = (Rc::clone(found), tx.clone());
    tx.on_result(&meta.get(&JsValue::from_str(JOURNAL_ID))?, move |stored| {
        let known = codec::id(&stored);
        own.borrow_mut().journal_id = known;
        if known.is_none()
            && let Err(thrown) = put_journal_id(&meta, claim.fresh_journal_id)
        {
            aborting.abort_for(thrown);
        }
    });
    let records = tx.store(RECORDS)?.get_all_with_key(&codec::record_range(claim.tab_id)?.into())?;
    let own = Rc::clone(found);
    tx.on_result(&records, move |stored| own.borrow_mut().records = codec::texts(stored));
    Ok(())
}

/// What the stored epoch says against a transaction: a higher one fences it off (J4), a lower one or none means that
/// what this context had written is gone (J11).
type Verdict = Rc<Cell<Option<TransactionOutcome>>>;

/// The epoch is asked for and the writes are issued behind it without waiting; they are undone if it says so.
fn issue_writes(tx: &Tx, transaction: &Transaction, verdict: &Verdict) -> Result<(), JsValue> {
    let (expected, verdict, aborting) = (transaction.epoch, Rc::clone(verdict), tx.clone());
    let stored = tx.store(TABS)?.get(&codec::tab_key(transaction.tab_id))?;
    tx.on_result(&stored, move |stored| {
        verdict.set(match codec::epoch(&stored).cmp(&expected) {
            Ordering::Greater => Some(TransactionOutcome::Fenced),
            Ordering::Less => Some(TransactionOutcome::Failed(StorageFault::Evicted)),
            Ordering::Equal => return,
        });
        aborting.abort();
    });
    let records = tx.store(RECORDS)?;
    for write in &transaction.writes {
        match write {
            Write::Put { key, record } => {
                let key = codec::record_key(transaction.tab_id, key);
                records.put_with_key(&codec::sealed(record), &key)?;
            }
            Write::Remove(key) => {
                records.delete(&codec::record_key(transaction.tab_id, key))?;
            }
            Write::JournalId(id) => put_journal_id(&tx.store(META)?, *id)?,
        }
    }
    Ok(())
}

fn put_journal_id(meta: &web_sys::IdbObjectStore, id: JournalId) -> Result<(), JsValue> {
    meta.put_with_key(&JsValue::from_str(&id.to_string()), &JsValue::from_str(JOURNAL_ID)).map(drop)
}

impl Inner {
    fn issue_transaction(&self, transaction: &Transaction) -> Receiver<Result<TransactionOutcome, JsValue>> {
        let (sender, receiver) = oneshot();
        let Some(database) = self.database() else {
            sender.send(Err(JsValue::NULL));
            return receiver;
        };
        let verdict = Verdict::default();
        let told = Rc::clone(&verdict);
        let changes_meta = transaction.writes.iter().any(|write| matches!(write, Write::JournalId(_)));
        let stores: &[&str] = if changes_meta { &[TABS, RECORDS, META] } else { &[TABS, RECORDS] };
        let mode = Mode::Write { strict: transaction.strict };
        let issue = |tx: &Tx| issue_writes(tx, transaction, &told);
        tx::run(&database, stores, mode, issue, move |end| {
            sender.send(match end {
                End::Complete { strict } => Ok(TransactionOutcome::Durable { strict }),
                End::Aborted(error) => verdict.get().ok_or(error),
            });
        });
        receiver
    }

    fn issue_epoch_read(&self, tab_id: TabId) -> Receiver<Result<u64, JsValue>> {
        let (sender, receiver) = oneshot();
        let Some(database) = self.database() else {
            sender.send(Err(JsValue::NULL));
            return receiver;
        };
        let epoch = Rc::new(Cell::new(0));
        let found = Rc::clone(&epoch);
        let issue = |tx: &Tx| {
            let stored = tx.store(TABS)?.get(&codec::tab_key(tab_id))?;
            tx.on_result(&stored, move |stored| found.set(codec::epoch(&stored)));
            Ok(())
        };
        tx::run(&database, &[TABS], Mode::Read, issue, move |end| {
            sender.send(match end {
                End::Complete { .. } => Ok(epoch.get()),
                End::Aborted(error) => Err(error),
            });
        });
        receiver
    }

    fn database(&self) -> Option<IdbDatabase> {
        self.database.borrow().as_ref().map(|opened| opened.database.clone())
    }

    /// What a request that ended like this means, once another connection has been tried.
    fn fault_of(&self, error: &JsValue) -> StorageFault {
        self.lost.get().unwrap_or_else(|| if error.is_null() { StorageFault::Closed } else { fault(error) })
    }

    /// Whether a request failed because of its connection, and there is another one now.
    async fn is_worth_reopening<T>(self: &Rc<Self>, ended: &Result<T, JsValue>) -> bool {
        match ended {
            Err(error) if error.is_null() || fault(error) == StorageFault::Closed => self.reopen().await,
            _ => false,
        }
    }

    /// Replaces a dead connection, if the database behind it is still the same; otherwise the store is lost.
    async fn reopen(self: &Rc<Self>) -> bool {
        if self.lost.get().is_some() {
            return false;
        }
        self.database.take();
        // A person waits for nothing here: what holds it up is told as the fault it ends with.
        let patience = Patience::new(self.storage_timeout_ms, Rc::new(|| {}));
        let reopened = match open(&self.name, IfMissing::Evicted, &patience).await {
            Ok(OpenDatabase { database, .. }) => {
                self.adopt(database);
                self.check_journal_id().await
            }
            Err(fault) => Err(fault),
        };
        match reopened {
            Ok(()) => self.lost.get().is_none(),
            Err(fault) => {
                self.lose(fault);
                false
            }
        }
    }

    async fn check_journal_id(&self) -> Result<(), StorageFault> {
        let (sender, receiver) = oneshot();
        let Some(database) = self.database() else { return Err(StorageFault::Closed) };
        let found = Rc::new(Cell::new(None));
        let filled = Rc::clone(&found);
        let issue = |tx: &Tx| {
            let stored = tx.store(META)?.get(&JsValue::from_str(JOURNAL_ID))?;
            tx.on_result(&stored, move |stored| filled.set(codec::id(&stored)));
            Ok(())
        };
        tx::run(&database, &[META], Mode::Read, issue, move |end| {
            sender.send(match end {
                End::Complete { .. } => Ok(found.get()),
                End::Aborted(error) => Err(fault(&error)),
            });
        });
        if receiver.await? == self.journal_id.get() { Ok(()) } else { Err(StorageFault::Evicted) }
    }

    /// Takes a connection, and listens for its end.
    fn adopt(self: &Rc<Self>, database: IdbDatabase) {
        let own = Rc::downgrade(self);
        let version_change = Closure::<dyn FnMut(IdbVersionChangeEvent)>::new(move |event: IdbVersionChangeEvent| {
            // Whoever upgrades or deletes the database waits for this connection to go.
            let is_deletion = event.new_version().is_none();
            let fault = if is_deletion { StorageFault::Evicted } else { StorageFault::Newer };
            with(&own, |inner| inner.lose(fault));
        });
        let own = Rc::downgrade(self);
        let close = Closure::<dyn FnMut(Event)>::new(move |_| {
            with(&own, |inner| {
                let inner = Rc::clone(inner);
                spawn_local(async move {
                    inner.reopen().await;
                });
            });
        });
        database.set_onversionchange(Some(version_change.as_ref().unchecked_ref()));
        database.set_onclose(Some(close.as_ref().unchecked_ref()));
        let opened = Opened { database, _version_change: version_change, _close: close };
        if self.lost.get().is_none() {
            self.database.replace(Some(opened));
        }
    }

    /// Nothing more can be stored.
    fn lose(&self, fault: StorageFault) {
        if self.lost.get().is_some() {
            return;
        }
        self.lost.set(Some(fault));
        self.database.take();
        let on_lost = self.on_lost.borrow_mut().take();
        if let Some(on_lost) = on_lost {
            on_lost(fault);
        }
    }
}

fn with(inner: &Weak<Inner>, act: impl FnOnce(&Rc<Inner>)) {
    if let Some(inner) = inner.upgrade() {
        act(&inner);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.database.set_onversionchange(None);
        self.database.set_onclose(None);
        self.database.close();
    }
}
