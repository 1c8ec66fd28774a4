//! What goes wrong, and the end of it.

use patchkeep_core::session::{Event as TabEvent, Status};
use patchkeep_core::storage::StorageFault;
use patchkeep_server::decide::Document;

use crate::profile::Fault;
use crate::tab::Why;
use crate::world::{Event, Sim};

impl Sim {
    /// Something goes wrong, and the next thing is planned.
    pub(crate) fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let wait = self.rng.range(1, 2 * self.setup.profile.fault_every_ms);
        self.at(self.now + wait, Event::Fault);
        let Some(fault) = self.draw() else { return };
        self.note(|_| format!("  fault {fault:?}"));
        match fault {
            Fault::Cut => {
                let open: Vec<u64> = self.contexts.values().flat_map(|c| c.sockets.values().copied()).collect();
                if let Some(socket) = open.get(self.rng.place(open.len())) {
                    self.cut(*socket);
                }
            }
            Fault::Restart => self.restart_server(),
            Fault::Reload => {
                if let Some(id) = self.any_context()
                    && let Some(slot) = self.contexts.get(&id).map(|c| c.slot)
                {
                    self.deliver(id, TabEvent::Suspend);
                    self.kill(id);
                    self.later(Event::Load { slot });
                }
            }
            Fault::Crash => {
                if let Some(id) = self.any_context() {
                    self.crash(id);
                }
            }
            Fault::Freeze => self.freeze(),
            Fault::Evict => self.evict(true),
            Fault::EvictJournal => self.evict(false),
            Fault::PowerLoss => {
                for id in self.contexts.keys().copied().collect::<Vec<_>>() {
                    self.kill(id);
                }
                self.disk.power_loss();
                for slot in 0..self.slots.len() {
                    self.later(Event::Load { slot });
                }
            }
            Fault::Steal => self.steal(),
            Fault::ClockJump => {
                let by = i64::try_from(self.rng.range(0, 20_000)).unwrap_or(0) - 10_000;
                if let Some(context) = self.any_context().and_then(|id| self.contexts.get_mut(&id)) {
                    context.skew += by;
                }
            }
            Fault::ForeignWrite => {
                let at = self.rng.place(crate::server::DOCS.len());
                let doc = crate::server::doc(at);
                if let Some(stored) = self.server.rows.docs.get(&doc) {
                    let document = Document { text: format!("{}~", stored.text), seq: stored.seq + 1 };
                    let seq = document.seq;
                    self.server.rows.put_document(&doc, document);
                    self.doc_changed(&doc, seq, None);
                }
            }
            Fault::Refresh => {
                let at = self.rng.place(crate::server::DOCS.len());
                let doc = crate::server::doc(at);
                if let Some(id) = self.any_context().filter(|id| self.has_open(*id, &doc)) {
                    self.refresh(id, &doc, Why::Refresh);
                }
            }
        }
    }

    fn has_open(&self, id: u64, doc: &patchkeep_core::ids::DocId) -> bool {
        self.contexts.get(&id).is_some_and(|c| c.frozen.is_none() && c.docs.contains_key(doc))
    }

    fn draw(&mut self) -> Option<Fault> {
        let faults = self.setup.profile.faults;
        let total: u64 = faults.iter().map(|(_, weight)| weight).sum();
        let mut left = if total == 0 { return None } else { self.rng.range(0, total - 1) };
        for (fault, weight) in faults {
            if left < *weight {
                return Some(*fault);
            }
            left -= weight;
        }
        None
    }

    fn any_context(&mut self) -> Option<u64> {
        let all: Vec<u64> = self.contexts.keys().copied().collect();
        all.get(self.rng.place(all.len())).copied()
    }

    fn freeze(&mut self) {
        let Some(id) = self.any_context() else { return };
        let told = self.rng.chance(600);
        if told {
            self.deliver(id, TabEvent::Suspend);
        }
        let Some(context) = self.contexts.get_mut(&id).filter(|c| c.frozen.is_none()) else { return };
        context.frozen = Some(Default::default());
        context.was_told = told;
        let lasts = self.rng.range(100, 20_000);
        self.at(self.now + lasts, Event::Thaw { context: id });
    }

    fn evict(&mut self, drafts_too: bool) {
        self.disk.evict(drafts_too);
        self.oracle.dirty = true;
        if self.rng.chance(500) {
            for id in self.contexts.keys().copied().collect::<Vec<_>>() {
                self.deliver(id, TabEvent::StorageLost(StorageFault::Evicted));
            }
        }
    }

    /// A new window takes a tab id that another one holds, as where the lock is stolen from a page that hangs.
    fn steal(&mut self) {
        let holders: Vec<(u64, usize)> = self.contexts.iter().map(|(id, c)| (*id, c.slot)).collect();
        let Some(&(holder, slot)) = holders.get(self.rng.place(holders.len())) else { return };
        // The old context stays alive in no window, until it hears of its loss.
        if let Some(s) = self.slots.get_mut(slot).filter(|s| s.context == Some(holder)) {
            s.context = None;
            self.load(slot, true);
            // It hears of it at once, or when it has done a few things more.
            let deaf = self.setup.profile.deaf;
            if deaf == 0 || !self.rng.chance(deaf) {
                self.later(Event::LockLost { context: holder });
            }
            let dies = self.now + 15_000;
            self.at(dies, Event::LockLost { context: holder });
        }
    }

    /// Nothing goes wrong from here on: pages go on, and whoever waits to connect does so now.
    pub(crate) fn calm_down(&mut self) {
        self.note(|_| "calm".into());
        self.is_calm = true;
        for id in self.contexts.keys().copied().collect::<Vec<_>>() {
            self.thaw(id);
            if self.contexts.get(&id).is_some_and(|c| c.session.status() == Status::Live) {
                self.deliver(id, TabEvent::Reconnect);
            }
        }
    }
}
