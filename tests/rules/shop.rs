//! A server for ops, and the outbox of one tab that writes to it: the server counts the effects of each key, and
//! each request meets the fault that is set.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use patchkeep_core::ids::{TabId, Uuid};
use patchkeep_core::outbox::{
    Answer, Capabilities, EnqueueError, NewOp, OnFailure, Op, OpKey, OpState, Outbox, OutboxConfig, OutboxEvent,
    OutboxInput, OutboxOutput, OutboxStart, Request,
};
use patchkeep_core::storage::{StorageFault, TransactionOutcome};
use patchkeep_core::time::Now;

/// Where the server is.
pub const ORIGIN: &str = "https://api.example";

/// What a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is processed and answered.
    None,
    /// It never arrives.
    LoseRequest,
    /// It is processed; the answer is lost.
    LoseAnswer,
    /// It is processed; a proxy answers 502.
    BadGateway,
    /// It is applied in a tab that does not save it.
    Unsaved,
    /// A gateway refuses it before the server sees it.
    Forbidden,
    /// 503, and nothing was processed.
    NotProcessed,
    /// 429 with a wish to wait.
    TooMany,
    /// 401.
    Unauthorized,
    /// The server refuses the write, and says that the key is released.
    Refuse,
    /// A login page.
    LoginPage,
    /// Another attempt of the key is under way, it says.
    InFlight,
    /// No answer comes, ever.
    Hang,
    /// It never goes out: the host's headers cannot be had.
    NoHeaders,
}

/// The tab, its store and the server.
#[derive(Debug)]
pub struct Shop {
    /// The tab's clock, in ms.
    pub now_ms: u64,
    /// How far its wall clock has been set, in ms.
    pub wall_set_ms: i64,
    /// Whether the server's clock is known.
    pub knows_server_clock: bool,
    /// What every request meets.
    pub fault: Fault,
    /// Whether the server keeps keys.
    pub keeps_keys: bool,
    /// What it lists of itself; `None`: it does not answer.
    pub lists: Option<Capabilities>,
    /// Whether what it is asked about itself stays unanswered.
    pub is_silent: bool,
    /// The questions about it, by number.
    pub questions: Vec<u64>,
    /// Effects per key.
    pub effects: BTreeMap<String, u64>,
    /// The keys of the effects, in their order.
    pub order: Vec<String>,
    /// Requests that went out, asks included.
    pub requests: Vec<Request>,
    /// Ops that ended without a trace.
    pub gone: Vec<OpKey>,
    /// Records that were removed from other tabs' outboxes.
    pub taken: Vec<(TabId, u64, OpKey)>,
    /// The outbox; `None` while no context lives.
    pub outbox: Option<Outbox>,
    /// How the next transactions fail.
    pub store_fails: Option<StorageFault>,
    /// Transactions end when [`Shop::catch_up`] is called.
    pub is_slow: bool,
    /// Nobody answers, whatever is asked.
    pub unreachable: bool,
    /// Ops that whoever queued them heard are stored.
    pub told_stored: Vec<OpKey>,
    /// How much was said to the outbox, and by it.
    pub steps: u64,
    /// Whether fresh credentials are to be had.
    pub credentials: bool,
    /// The host does not answer when it is asked for them.
    pub host_is_silent: bool,
    /// For whom it was asked.
    pub refreshes: Vec<OpKey>,
    stored: BTreeMap<OpKey, String>,
    stored_epoch: u64,
    done: BTreeMap<String, ()>,
    inputs: VecDeque<OutboxEvent>,
    hanging: Vec<u64>,
    slow: VecDeque<OutboxEvent>,
    suspended: bool,
    /// Nothing is sent here any more: another context has the tab, or ops wait for one that can write.
    stands_still: bool,
    counter: u128,
}

impl Shop {
    /// A tab with an empty outbox; `keys`: the server keeps keys and says so.
    pub fn new(keys: bool) -> Self {
        let lists = Capabilities { idempotency_keys: keys, attempts: keys, ..Capabilities::default() };
        let mut shop = Self {
            now_ms: 1_000_000_000,
            wall_set_ms: 0,
            knows_server_clock: true,
            fault: Fault::None,
            keeps_keys: keys,
            lists: Some(lists),
            is_silent: false,
            questions: Vec::new(),
            effects: BTreeMap::new(),
            order: Vec::new(),
            requests: Vec::new(),
            gone: Vec::new(),
            taken: Vec::new(),
            outbox: None,
            store_fails: None,
            is_slow: false,
            unreachable: false,
            told_stored: Vec::new(),
            steps: 0,
            credentials: true,
            host_is_silent: false,
            refreshes: Vec::new(),
            stored: BTreeMap::new(),
            stored_epoch: 0,
            done: BTreeMap::new(),
            inputs: VecDeque::new(),
            hanging: Vec::new(),
            slow: VecDeque::new(),
            suspended: false,
            stands_still: false,
            counter: 0,
        };
        shop.load();
        shop
    }

    /// A context begins; what is stored is loaded under the next epoch.
    pub fn load(&mut self) {
        self.inputs.clear();
        self.hanging.clear();
        self.slow.clear();
        (self.suspended, self.stands_still) = (false, false);
        self.stored_epoch += 1;
        let ops = self.stored.values().map(|text| Op::decode(text).expect("what was stored can be read"));
        self.outbox = Some(Outbox::new(OutboxStart {
            now: self.now(),
            tab_id: TabId(Uuid::v4(1)),
            epoch: self.stored_epoch,
            durable: true,
            ops: ops.collect(),
            config: OutboxConfig::default(),
        }));
        self.happen(OutboxEvent::Timer);
    }

    /// Queues an op.
    pub fn enqueue(&mut self, key: Option<&str>, lane: &str, body: &str) -> Result<OpKey, EnqueueError> {
        let new = NewOp {
            key: key.and_then(OpKey::new),
            method: "post".into(),
            origin: ORIGIN.into(),
            path: "/api/docs/d1/edits".into(),
            body: Some(body.into()),
            key_in_body: false,
            content_type: "application/json".into(),
            lane: lane.into(),
            on_failure: OnFailure::Hold,
            expects_other_type: false,
            deadline_ms: None,
            may_be_volatile: false,
        };
        self.queue(new)
    }

    /// Queues any op.
    pub fn queue(&mut self, new: NewOp) -> Result<OpKey, EnqueueError> {
        let (now, random) = (self.now(), self.random());
        let outbox = self.outbox.as_mut().expect("a context lives");
        let key = outbox.enqueue(now, random, new)?;
        self.drain();
        self.run();
        Ok(key)
    }

    /// Something happens.
    pub fn happen(&mut self, event: OutboxEvent) {
        self.inputs.push_back(event);
        self.run();
    }

    /// Another tab's outbox holds these ops, and this one takes them over (T5).
    pub fn adopt(&mut self, from: TabId, ops: Vec<Op>) -> Vec<OpKey> {
        self.call(|outbox, now, _| outbox.adopt(now, from, 7, ops))
    }

    /// The op as it is stored.
    pub fn stored(&self, key: &OpKey) -> Option<Op> {
        self.stored.get(key).map(|text| Op::decode(text).expect("what was stored can be read"))
    }

    /// Transactions that took their time end.
    pub fn catch_up(&mut self) {
        self.inputs.append(&mut self.slow);
        self.run();
    }

    /// A call of the host.
    pub fn call<T>(&mut self, call: impl FnOnce(&mut Outbox, Now, u128) -> T) -> T {
        let (now, random) = (self.now(), self.random());
        let result = call(self.outbox.as_mut().expect("a context lives"), now, random);
        self.drain();
        self.run();
        result
    }

    /// Time passes.
    pub fn advance(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        let mut in_vain = 0;
        while let Some(wake) = self.outbox.as_ref().and_then(Outbox::next_wake).filter(|wake| *wake <= until) {
            let (now_ms, steps) = (self.now_ms, self.steps);
            self.now_ms = self.now_ms.max(wake);
            self.happen(OutboxEvent::Timer);
            in_vain = if (self.now_ms, self.steps) == (now_ms, steps) { in_vain + 1 } else { 0 };
            assert!(in_vain < 10, "K6: it wakes up for nothing, again and again");
        }
        self.now_ms = until;
    }

    /// Where an op is.
    pub fn state(&self, key: &OpKey) -> Option<OpState> {
        self.outbox.as_ref()?.op(key).map(|op| op.state)
    }

    /// The tab's clocks.
    pub const fn now(&self) -> Now {
        Now { mono_ms: self.now_ms, wall_ms: self.now_ms.saturating_add_signed(self.wall_set_ms) }
    }

    fn random(&mut self) -> u128 {
        self.counter += 1;
        self.counter.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn run(&mut self) {
        while let Some(event) = self.inputs.pop_front() {
            let (now, random) = (self.now(), self.random());
            let Some(outbox) = &mut self.outbox else { return };
            match event {
                OutboxEvent::Suspend => self.suspended = true,
                OutboxEvent::Resume => self.suspended = false,
                _ => {}
            }
            let server_now_ms = self.knows_server_clock.then_some(self.now_ms);
            outbox.handle(OutboxInput { now, server_now_ms, random, event });
            self.drain();
        }
        // While a transaction is out, its end is waited for.
        let is_waited_for = self.suspended || !self.slow.is_empty();
        let wakes = self.outbox.as_ref().and_then(Outbox::next_wake).is_some();
        assert!(wakes || is_waited_for || self.work().is_none(), "K6: nobody wakes up for {:?}", self.work());
    }

    /// An op that goes on by itself: one that its lane waits for, one that is not saved yet, one that is asked about.
    pub fn work(&self) -> Option<&Op> {
        let outbox = self.outbox.as_ref().filter(|_| !self.stands_still)?;
        let mut heads = BTreeSet::new();
        outbox.ops().find(|op| {
            let is_passed = op.state.is_settled() && op.on_failure == OnFailure::Pass;
            let is_head = !op.state.lets_lane_go_on() && !is_passed && heads.insert(&op.lane);
            let goes_on = matches!(op.state, OpState::Queued | OpState::Sending | OpState::Waiting);
            is_head && goes_on || op.state == OpState::Applied || outbox.is_asking(&op.key)
        })
    }

    fn drain(&mut self) {
        while let Some(output) = self.outbox.as_mut().and_then(Outbox::poll) {
            self.steps += 1;
            match output {
                OutboxOutput::Transact(transaction) => {
                    let outcome = if let Some(fault) = self.store_fails {
                        TransactionOutcome::Failed(fault)
                    } else if transaction.epoch < self.stored_epoch {
                        TransactionOutcome::Fenced
                    } else {
                        self.taken.extend(transaction.taken);
                        for (key, text) in transaction.writes {
                            match text {
                                Some(text) => drop(self.stored.insert(key, text)),
                                None => drop(self.stored.remove(&key)),
                            }
                        }
                        TransactionOutcome::Durable { strict: true }
                    };
                    let ended = OutboxEvent::Transaction { id: transaction.id, outcome };
                    if self.is_slow { &mut self.slow } else { &mut self.inputs }.push_back(ended);
                }
                OutboxOutput::Fetch(request) => self.serve(request),
                OutboxOutput::AskCapabilities { question, .. } => {
                    self.questions.push(question);
                    if self.unreachable {
                        self.inputs.push_back(OutboxEvent::Unreachable { question });
                    } else if !self.is_silent {
                        self.inputs.push_back(OutboxEvent::Capabilities { question, listed: self.lists });
                    }
                }
                OutboxOutput::RefreshCredentials { key } => {
                    self.refreshes.push(key.clone());
                    if !self.host_is_silent {
                        self.inputs.push_back(OutboxEvent::Refreshed { key, fresh: self.credentials });
                    }
                }
                OutboxOutput::Gone { key, .. } => self.gone.push(key),
                OutboxOutput::Stored { key } => self.told_stored.push(key),
                OutboxOutput::Fenced => self.stands_still = true,
                OutboxOutput::Volatile(fault) => self.stands_still |= fault != StorageFault::Evicted,
                OutboxOutput::Changed { .. } => {}
            }
        }
    }

    fn serve(&mut self, request: Request) {
        let stored = self.stored.get(&request.key).map(|text| Op::decode(text).expect("readable"));
        let is_ask = request.headers.iter().any(|(name, _)| *name == "Idempotency-Ask");
        if self.store_fails.is_none() && !is_ask {
            assert!(
                stored.is_some_and(|op| op.state == OpState::Sending),
                "K1: `sending` is durable before the request"
            );
        }
        let answer = self.answer(&request, is_ask);
        let number = request.request;
        self.requests.push(request);
        match answer {
            Some(answer) => self.inputs.push_back(OutboxEvent::Answered { request: number, answer }),
            None => self.hanging.push(number),
        }
    }

    fn answer(&mut self, request: &Request, is_ask: bool) -> Option<Answer> {
        let key = request.key.to_string();
        Some(match self.fault {
            Fault::None => self.process(&key, is_ask),
            Fault::LoseRequest => Answer::Failed,
            Fault::LoseAnswer => {
                self.process(&key, is_ask);
                Answer::Failed
            }
            Fault::BadGateway => {
                self.process(&key, is_ask);
                answered(502, "text/html", "<html>", &[])
            }
            // It takes a server that keeps keys to tell later what became of it.
            Fault::Unsaved if !self.keeps_keys => self.process(&key, is_ask),
            Fault::Unsaved => match self.process(&key, is_ask) {
                Answer::Answered { status: 200, .. } => {
                    answered(200, "application/json", r#"{"applied_pending_flush":true}"#, &[])
                }
                other => other,
            },
            Fault::Forbidden => answered(403, "text/html", "<h1>Forbidden</h1>", &[]),
            Fault::NotProcessed => error(503, "not_processed"),
            Fault::TooMany => answered(429, "application/json", "{}", &[("retry-after", "7")]),
            Fault::Unauthorized => error(401, "unauthorized"),
            Fault::Refuse if self.done.contains_key(&key) => self.process(&key, is_ask),
            Fault::Refuse => answered(422, "application/json", r#"{"error":{"code":"no"},"key":"released"}"#, &[]),
            Fault::LoginPage => answered(200, "text/html", "<html>Log in", &[]),
            Fault::InFlight => error(409, "idempotency_in_flight"),
            Fault::Hang => return None,
            Fault::NoHeaders => Answer::NotSent,
        })
    }

    fn process(&mut self, key: &str, is_ask: bool) -> Answer {
        if self.keeps_keys && self.done.contains_key(key) {
            return answered(200, "application/json", r#"{"seq":1,"replayed":true}"#, &[]);
        }
        if is_ask {
            return error(404, "idempotency_key_unknown");
        }
        *self.effects.entry(key.into()).or_default() += 1;
        self.order.push(key.into());
        self.done.insert(key.into(), ());
        answered(200, "application/json", r#"{"seq":1}"#, &[])
    }
}

/// The connection to the server is made anew.
pub fn reconnected() -> OutboxEvent {
    OutboxEvent::Reconnected { origin: ORIGIN.into() }
}

/// A whole answer.
pub fn answered(status: u16, content_type: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type".to_owned(), content_type.to_owned())];
    all.extend(headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
    Answer::Answered { status, headers: all, body: body.into() }
}

fn error(status: u16, code: &str) -> Answer {
    answered(status, "application/json", &format!(r#"{{"error":{{"code":"{code}"}}}}"#), &[])
}
