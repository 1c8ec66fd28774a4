//! Driving a context: what happens goes into the session, what it says is done, and the context may die in between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use patchkeep_core::ids::{ContextId, JournalId, TabId, Uuid};
use patchkeep_core::session::{Config, Event as TabEvent, Input, Notice, Output, Session, Start, Status};
use patchkeep_core::storage::{Durability, Transaction, TransactionOutcome, Write};
use patchkeep_core::tab::Identity;
use patchkeep_core::time::Now;

use super::{Context, Why};
use crate::mutants::Mutant;
use crate::network::Message;
use crate::server::CLOCK_OFFSET;
use crate::world::{Event, Sim};

/// How long a handler may take, in ms.
const HANDLER_TIMEOUT_MS: u64 = 4_000;

impl Sim {
    /// A window loads the page: what it showed is gone. `steal`: the stored id is taken though its lock is held.
    pub(crate) fn load(&mut self, slot: usize, steal: bool) {
        if let Some(old) = self.slots.get_mut(slot).and_then(|s| s.context.take()) {
            self.kill(old);
        }
        let stored = self.slots.get(slot).and_then(|s| s.tab);
        let is_held =
            stored.is_some_and(|id| self.contexts.values().any(|c| c.tab == id && c.session.status() == Status::Live));
        let tab = match stored {
            Some(id) if steal || !is_held => id,
            // T2: who cannot get the lock mints another id at once.
            _ => TabId(Uuid::v4(self.rng.wide())),
        };
        let (epoch, records, journal_id) = if self.setup.durability == Durability::Memory {
            // Without storage nothing is resumed: no epoch could be read (J11).
            (1, Vec::new(), JournalId(Uuid::v4(self.rng.wide())))
        } else {
            if self.is(Mutant::JournalIdKept) {
                self.disk.lose_records();
            }
            let (epoch, records) = self.disk.take(&mut self.rng, tab);
            (epoch, records, self.disk.journal_id)
        };
        let tab = if self.setup.durability == Durability::Memory { TabId(Uuid::v4(self.rng.wide())) } else { tab };
        self.last_context += 1;
        let id = self.last_context;
        if let Some(s) = self.slots.get_mut(slot) {
            (s.tab, s.context) = (Some(tab), Some(id));
        }
        let began = self.now;
        let identity =
            Identity { tab_id: tab, epoch, context_id: ContextId(Uuid::v4(self.rng.wide())), journal_id, weak: false };
        self.note(|_| format!("  load: context {id} slot {slot} {identity:?} {} records", records.len()));
        let session = Session::new(Start {
            now: Now { mono_ms: 0, wall_ms: self.now + CLOCK_OFFSET },
            random: self.rng.pair(),
            principal: "ws/user".into(),
            identity,
            durability: if self.is(Mutant::RelaxedAsStrict) { Durability::Strict } else { self.setup.durability },
            fault: None,
            records,
            visible: true,
            config: Config { handler_timeout_ms: HANDLER_TIMEOUT_MS, ..Config::default() },
        });
        let context = Context {
            slot,
            tab,
            began,
            skew: 0,
            session,
            docs: BTreeMap::new(),
            generations: BTreeMap::new(),
            frozen: None,
            was_told: false,
            inbox: VecDeque::new(),
            sockets: BTreeMap::new(),
            timer_at: None,
            saving: BTreeSet::new(),
            fetching: BTreeSet::new(),
        };
        self.contexts.insert(id, context);
        for doc in self.server.rows.docs.keys().cloned().collect::<Vec<_>>() {
            self.later(Event::Fetch { context: id, doc, why: Why::Open });
        }
        self.later(Event::Tick { context: id });
        self.pump(id);
    }

    /// A context dies: what was in memory is gone, and its sockets with it.
    pub(crate) fn kill(&mut self, id: u64) {
        let Some(context) = self.contexts.remove(&id) else { return };
        self.note(|_| format!("  context {id} dies"));
        self.oracle.dirty = true;
        for socket in context.sockets.into_values() {
            self.up(socket, Message::Closed(1001));
        }
        if let Some(slot) = self.slots.get_mut(context.slot)
            && slot.context == Some(id)
        {
            slot.context = None;
        }
    }

    /// A context dies without a word, and its window loads the page again.
    pub(crate) fn crash(&mut self, id: u64) {
        let Some(slot) = self.contexts.get(&id).map(|c| c.slot) else { return };
        self.kill(id);
        self.later(Event::Load { slot });
    }

    /// Tells a session that something happened.
    pub(crate) fn deliver(&mut self, id: u64, event: TabEvent) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        if let Some(waiting) = &mut context.frozen {
            waiting.push_back(event);
            return;
        }
        context.inbox.push_back(event);
        self.pump(id);
    }

    /// Does what the session says, and hands in what has happened, until there is neither.
    pub(crate) fn pump(&mut self, id: u64) {
        loop {
            while let Some(output) = self.contexts.get_mut(&id).and_then(|c| c.session.poll()) {
                if self.fails(self.setup.profile.crash) {
                    self.note(|_| format!("  crash of {id} before {output:?}"));
                    return self.crash(id);
                }
                self.note(|_| format!("  {id} says {output:?}"));
                self.execute(id, output);
            }
            let random = self.rng.pair();
            let now = self.now;
            let Some(context) = self.contexts.get_mut(&id) else { return };
            let Some(event) = context.inbox.pop_front() else { break };
            let now = context.clocks(now);
            context.session.handle(Input { now, random, event });
        }
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let wake = context.session.next_wake().map(|w| w + context.began);
        if let Some(at) = wake
            && context.timer_at.is_none_or(|t| at < t || t < self.now)
        {
            context.timer_at = Some(at.max(self.now));
            self.at(at, Event::Timer { context: id });
        }
    }

    /// The tab's timer.
    pub(crate) fn timer(&mut self, id: u64) {
        let now = self.now;
        let Some(context) = self.contexts.get_mut(&id).filter(|c| c.timer_at == Some(now)) else { return };
        context.timer_at = None;
        self.deliver(id, TabEvent::Timer);
    }

    fn execute(&mut self, id: u64, output: Output) {
        match output {
            Output::Connect { conn } => self.connect(id, conn),
            Output::CloseSocket { conn, .. } => self.closed_by_tab(id, conn),
            Output::Send { conn, text } => {
                if let Some(socket) = self.contexts.get(&id).and_then(|c| c.sockets.get(&conn)).copied() {
                    self.up(socket, Message::Text(text));
                }
            }
            Output::Transact(transaction) => self.transact(id, transaction),
            Output::ReadEpoch => self.later(Event::ReadEpoch { context: id }),
            Output::CheckGuard { call, doc } => {
                let Some(context) = self.contexts.get_mut(&id) else { return };
                let unconfirmed = context.docs.get(&doc).is_none_or(|d| d.text != d.saved);
                context.inbox.push_back(TabEvent::Guard { call, unconfirmed });
            }
            Output::CallHandler(call) => self.call_handler(id, call),
            Output::CallReconcile(call) => self.call_reconcile(id, &call),
            Output::ForgetIdentity { journal_id } => self.forget(id, Some(journal_id)),
            Output::Notify(notice) => self.noticed(id, &notice),
        }
    }

    /// T3, J4: neither this tab id nor its journal's id is used by a later load of this window.
    fn forget(&mut self, id: u64, journal_id: Option<JournalId>) {
        let Some(context) = self.contexts.get(&id) else { return };
        let (tab_id, epoch, slot) = (context.tab, context.session.identity().epoch, context.slot);
        if let Some(slot) = self.slots.get_mut(slot)
            && slot.tab == Some(tab_id)
        {
            slot.tab = None;
            self.oracle.dirty = true;
        }
        if let Some(journal_id) = journal_id {
            let writes = vec![Write::JournalId(journal_id)];
            let transaction = Transaction { id: 0, tab_id, epoch, strict: true, writes };
            self.later(Event::TxApply { context: id, transaction });
        }
    }

    fn noticed(&mut self, id: u64, notice: &Notice) {
        match notice {
            Notice::Status(Status::Fenced) => {
                // Its documents are dead: the host loads the page again.
                self.forget(id, None);
                self.oracle.dirty = true;
                if let Some(slot) = self.contexts.get(&id).map(|c| c.slot)
                    && self.slots.get(slot).is_some_and(|s| s.context == Some(id))
                {
                    self.later(Event::Load { slot });
                }
            }
            Notice::DocChanged { doc, .. } if self.is_clean(id, doc) && self.rng.chance(300) => {
                self.refresh(id, doc, Why::MovedOn);
            }
            _ => {}
        }
    }

    /// A transaction is on its way to the disk.
    fn transact(&mut self, context: u64, transaction: Transaction) {
        let disk_ms = if self.is_calm { 0 } else { self.setup.profile.disk_ms };
        let slowly = if disk_ms > 0 { self.rng.range(0, disk_ms) } else { 0 };
        let at = self.now + self.delay() + slowly;
        self.at(at, Event::TxApply { context, transaction });
    }

    /// A transaction takes effect. One of a context that died meanwhile was issued all the same, and may run.
    pub(crate) fn tx_apply(&mut self, id: u64, transaction: &Transaction) {
        if !self.contexts.contains_key(&id) && self.rng.chance(500) {
            return;
        }
        let mut transaction = transaction.clone();
        match self.mutant {
            Some(Mutant::NoStoreFence) => transaction.epoch = u64::MAX,
            Some(Mutant::NoIntent) => {
                transaction.writes.retain(|w| !matches!(w, Write::Put { record, .. } if record.contains("applying")))
            }
            Some(Mutant::RemoveLast) => transaction.writes.sort_by_key(|w| matches!(w, Write::Remove(_))),
            Some(Mutant::KeptForGood) => self.disk.keep_for_good(&mut transaction),
            _ => {}
        }
        let mut outcome = self.disk.run(&transaction);
        if let (true, TransactionOutcome::Durable { strict }) = (self.is(Mutant::RelaxedAsStrict), &mut outcome) {
            *strict = transaction.strict;
        }
        if self.rng.chance(300) {
            self.disk.sync();
        }
        self.later(Event::TxDone { context: id, id: transaction.id, outcome });
    }

    /// Its end reaches the tab.
    pub(crate) fn tx_done(&mut self, context: u64, id: u64, outcome: TransactionOutcome) {
        if id > 0 {
            self.deliver(context, TabEvent::Transaction { id, outcome });
        }
    }

    /// The stored epoch is read for the tab.
    pub(crate) fn read_epoch(&mut self, id: u64) {
        if let Some(tab) = self.contexts.get(&id).map(|c| c.tab) {
            let epoch = self.disk.epoch(tab);
            self.deliver(id, TabEvent::EpochRead(Ok(epoch)));
        }
    }

    /// A frozen page goes on: what waited comes in, before or after it is told.
    pub(crate) fn thaw(&mut self, id: u64) {
        let first = self.rng.chance(500);
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let Some(mut waiting) = context.frozen.take() else { return };
        if std::mem::take(&mut context.was_told) {
            if first {
                waiting.push_front(TabEvent::Resume);
            } else {
                waiting.push_back(TabEvent::Resume);
            }
        }
        // Whatever timer there was is late now.
        context.timer_at = None;
        waiting.push_back(TabEvent::Timer);
        for event in waiting {
            self.deliver(id, event);
        }
    }
}

impl Context {
    /// Its clocks.
    pub(crate) const fn clocks(&self, now: u64) -> Now {
        Now { mono_ms: now - self.began, wall_ms: (now + CLOCK_OFFSET).saturating_add_signed(self.skew) }
    }
}
