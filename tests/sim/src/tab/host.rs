//! The host's handler and reconcile hook: fast, slow, refusing, throwing, silent; but never lying.

use patchkeep_core::edit;
use patchkeep_core::frame::Reason;
use patchkeep_core::json;
use patchkeep_core::session::{
    Event as TabEvent, HandlerCall, HandlerOutcome, HandlerResult, ReconcileCall, ReconcileOutcome,
};

use crate::mutants::Mutant;
use crate::world::{Event, Sim};

/// The longest a slow handler takes, in ms: longer than its time-out.
const SLOWEST_MS: u64 = 7_000;

impl Sim {
    /// The handler is called.
    pub(crate) fn call_handler(&mut self, id: u64, call: HandlerCall) {
        let profile = &self.setup.profile;
        let (slow, throw, refuse, never) = (profile.slow, profile.throw, profile.refuse, profile.never);
        let number = call.call;
        let outcome = if self.fails(never) {
            HandlerOutcome::Pending
        } else if self.fails(slow) {
            let at = self.now + self.rng.range(1, SLOWEST_MS);
            self.at(at, Event::Effect { context: id, call });
            HandlerOutcome::Pending
        } else if self.fails(refuse) {
            HandlerOutcome::Refused { reason: Reason::HandlerRefused, detail: None }
        } else {
            self.effect_or_throw(id, &call, throw)
        };
        if let Some(context) = self.contexts.get_mut(&id) {
            context.inbox.push_back(TabEvent::Handler { call: number, outcome });
        }
    }

    fn effect_or_throw(&mut self, id: u64, call: &HandlerCall, throw: u64) -> HandlerOutcome {
        let threw = HandlerOutcome::Threw { detail: "thrown by the host".into() };
        if self.fails(throw / 2) {
            return threw;
        }
        match self.effect(id, call) {
            Ok(()) if self.is(Mutant::RefusesAfterEffect) && self.fails(throw) => {
                HandlerOutcome::Refused { reason: Reason::HandlerRefused, detail: None }
            }
            Ok(()) if self.fails(throw) => threw,
            Ok(()) => HandlerOutcome::Applied(HandlerResult::None),
            Err(reason) => HandlerOutcome::Refused { reason, detail: None },
        }
    }

    fn effect(&mut self, id: u64, call: &HandlerCall) -> Result<(), Reason> {
        let any = self.is(Mutant::NotWanted);
        let context = self.contexts.get_mut(&id).ok_or(Reason::NotOpen)?;
        let open = context.docs.get_mut(&call.doc).filter(|d| any || d.incarnation == call.incarnation);
        let open = open.ok_or(Reason::WrongIncarnation)?;
        let body = json::parse(&call.body).map_err(|_| Reason::Malformed)?;
        open.text = edit::apply(&open.text, &body)?;
        open.holds.insert(call.patch_id);
        self.oracle.dirty = true;
        if let Some(op) = self.oracle.planned.get(&call.patch_id) {
            self.oracle.made_by.insert(*op, Some(call.patch_id));
        }
        self.draft_at_once(id, &call.doc);
        self.note(|_| format!("  effect of {} in {id}", call.patch_id));
        Ok(())
    }

    /// A slow handler makes its effect, if it is still wanted, and settles at once or a little later.
    pub(crate) fn slow_effect(&mut self, id: u64, call: &HandlerCall) {
        let Some(context) = self.contexts.get(&id) else { return };
        if context.frozen.is_some() {
            // A frozen page runs nothing; its promise goes on afterwards.
            return self.at(self.now + 500, Event::Effect { context: id, call: call.clone() });
        }
        let outcome = if context.session.still_wanted(call.call) || self.is(Mutant::NotWanted) {
            self.effect_or_throw(id, call, self.setup.profile.throw)
        } else {
            HandlerOutcome::Refused { reason: Reason::HandlerRefused, detail: None }
        };
        let settled = Event::Settled { context: id, call: call.call, outcome };
        if self.rng.chance(500) { self.at(self.now, settled) } else { self.later(settled) }
    }

    /// A handler settles.
    pub(crate) fn handler_settled(&mut self, id: u64, call: u64, outcome: HandlerOutcome) {
        self.deliver(id, TabEvent::Handler { call, outcome });
    }

    /// The hook is asked. It is truthful: this simulation never takes an effect out of a text again, so that what it
    /// does not see has never been in anything this text descends from.
    pub(crate) fn call_reconcile(&mut self, id: u64, call: &ReconcileCall) {
        if self.fails(self.setup.profile.never) {
            return self.hook_says(id, call.call, ReconcileOutcome::Pending);
        }
        let record = &call.record;
        let op = self.oracle.planned.get(&record.patch_id).and_then(|at| Some((at, self.ops.get(*at)?)));
        let text = self.contexts.get(&id).and_then(|c| c.docs.get(&record.doc));
        let text = text.filter(|d| d.incarnation == call.incarnation).map(|d| &d.text);
        let outcome = match (op, text) {
            _ if self.is(Mutant::HookLies) => ReconcileOutcome::Absent,
            // The same token may be there by another plan of the same key: that is not this patch's effect.
            (Some((at, op)), Some(text)) => {
                let is_its = self.oracle.made_by.get(at) == Some(&Some(record.patch_id));
                if is_its && text.contains(op.token.as_str()) {
                    ReconcileOutcome::Present
                } else {
                    ReconcileOutcome::Absent
                }
            }
            _ => ReconcileOutcome::Unknown,
        };
        if self.fails(self.setup.profile.slow) {
            self.hook_says(id, call.call, ReconcileOutcome::Pending);
            self.later(Event::Reconciled { context: id, call: call.call, outcome });
        } else {
            self.hook_says(id, call.call, outcome);
        }
    }

    fn hook_says(&mut self, id: u64, call: u64, outcome: ReconcileOutcome) {
        if let Some(context) = self.contexts.get_mut(&id) {
            context.inbox.push_back(TabEvent::Reconcile { call, outcome });
        }
    }

    /// A hook's promise settles.
    pub(crate) fn reconciled(&mut self, id: u64, call: u64, outcome: ReconcileOutcome) {
        self.deliver(id, TabEvent::Reconcile { call, outcome });
    }
}
