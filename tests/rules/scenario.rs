//! The stories of `scenarios.json`, step by step (`shared/vectors/README.md` describes the verbs).

use std::collections::BTreeMap;

use patchkeep_core::digest;
use patchkeep_core::frame::{ConfirmedAs, Homed, PatchFrame, QueryEntry, ServerFrame, TabFrame};
use patchkeep_core::ids::{DocId, Incarnation, JournalId, PatchId, Uuid};
use patchkeep_core::session::{ReconcileOutcome, Status};
use patchkeep_core::storage::Durability;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::world::{CrashPoint, HandlerMode, ReconcileMode, World};

/// The file.
#[derive(Debug, Deserialize)]
pub struct ScenarioFile {
    /// Its stories.
    pub scenarios: Vec<Scenario>,
}

/// One story.
#[derive(Debug, Deserialize)]
pub struct Scenario {
    /// What it shows.
    pub name: String,
    /// The rule it belongs to.
    #[serde(default)]
    pub rule: String,
    /// What the journal promises.
    #[serde(default = "strict")]
    pub durability: String,
    /// How far the server's clock is ahead, in ms.
    #[serde(default)]
    pub skew_ms: i64,
    /// The steps, each an object with one verb.
    pub steps: Vec<Map<String, Value>>,
}

fn strict() -> String {
    "strict".into()
}

impl Scenario {
    /// Tells the story.
    ///
    /// # Errors
    /// The first step that does not go as told, in a sentence for a person.
    pub fn run(&self) -> Result<(), String> {
        let durability = match self.durability.as_str() {
            "strict" => Durability::Strict,
            "relaxed" => Durability::Relaxed,
            "memory" => Durability::Memory,
            other => return Err(format!("durability {other}")),
        };
        let mut stage = Stage {
            world: World::new(durability, self.skew_ms),
            names: Names::default(),
            first: BTreeMap::new(),
            frozen: None,
            held: Vec::new(),
        };
        for (i, step) in self.steps.iter().enumerate() {
            stage.step(step, &self.steps[i..]).map_err(|why| format!("step {}: {why}", i + 1))?;
        }
        Ok(())
    }
}

/// Short names of patches, and the ids they stand for.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, PatchId>);

impl Names {
    fn id(&mut self, name: &str) -> PatchId {
        let next = self.0.len() as u128 + 1;
        *self.0.entry(name.into()).or_insert(PatchId(Uuid::from_u128(0x0189_0000_0000_7000_8000_0000_0000_0000 + next)))
    }

    fn name(&self, id: PatchId) -> String {
        self.0.iter().find(|(_, known)| **known == id).map_or_else(|| id.to_string(), |(name, _)| name.clone())
    }
}

/// Who a patch was handed to first.
#[derive(Clone, Copy, Debug)]
struct Recipient {
    journal_id: JournalId,
    incarnation: Incarnation,
}

struct Stage {
    world: World,
    names: Names,
    first: BTreeMap<PatchId, Recipient>,
    /// How long the tab will have been frozen when it thaws.
    frozen: Option<u64>,
    held: Vec<String>,
}

impl Stage {
    fn step(&mut self, step: &Map<String, Value>, rest: &[Map<String, Value>]) -> Result<(), String> {
        let (verb, argument) = step.iter().next().ok_or("an empty step")?;
        let text = argument.as_str().unwrap_or_default();
        match verb.as_str() {
            "connect" => self.world.connect(argument["silent"] == true),
            "cut" => self.world.cut(),
            "open" => {
                let homed = Homed::from_code(str_of(step, "homed").unwrap_or("elsewhere")).ok_or("homed")?;
                let base_seq = step.get("base_seq").and_then(Value::as_u64);
                let hook = self.world.reconcile != ReconcileMode::None || comes_a_hook(rest);
                self.world.open_document(&doc_id(text)?, homed, base_seq, hook);
            }
            "patch" => {
                let frame = self.patch_frame(step, text)?;
                self.server_sends(frame);
            }
            "query" => {
                let patch_id = self.names.id(text);
                let delivery = step.get("delivery").and_then(Value::as_u64).unwrap_or(1);
                let journal_id = match self.first.get(&patch_id).filter(|_| str_of(step, "to") == Some("first")) {
                    Some(first) => first.journal_id,
                    None => self.world.journal_id().ok_or("no context")?,
                };
                self.server_sends(
                    ServerFrame::PatchQuery(vec![QueryEntry { patch_id, delivery, journal_id }]).encode(),
                );
            }
            "confirmed" => {
                let confirmed = ConfirmedAs::from_code(str_of(step, "as").unwrap_or_default()).ok_or("as")?;
                let patch_id = self.names.id(text);
                self.server_sends(ServerFrame::PatchConfirmed(vec![(patch_id, confirmed)]).encode());
            }
            "raw" => self.server_sends(text.into()),
            "handler" => self.world.handler = handler_mode(text)?,
            "settle" => {
                let with = handler_mode(str_of(step, "with").unwrap_or("ok"))?;
                let patch_id = self.names.id(text);
                self.world.settle(patch_id, &with);
            }
            "unsaved_typing" => self.world.unsaved_typing = argument == true,
            "reconcile" => self.world.reconcile = reconcile_mode(text)?,
            "keep" => self.world.keep(&doc_id(text)?),
            "flush" => self.world.flush(&doc_id(text)?),
            "reload" => {
                self.world.die();
                self.world.load();
            }
            "crash_at" => {
                self.world.crash_at = Some(match text {
                    "intent" => CrashPoint::Intent,
                    "effect" => CrashPoint::Effect,
                    "ack" => CrashPoint::Ack,
                    other => return Err(format!("crash_at {other}")),
                });
            }
            "evict" => self.world.store.evict(),
            "os_crash" => {
                self.world.die();
                self.world.store.power_cut();
                self.world.load();
            }
            "steal" => {
                let tab_id = self.world.tab_id();
                self.world.store.steal(tab_id);
            }
            "advance" => self.world.advance(argument.as_u64().ok_or("milliseconds")?),
            "freeze" => self.frozen = Some(argument.as_u64().ok_or("milliseconds")?),
            "thaw" => self.thaw(),
            "expect" => self.expect(argument)?,
            other => return Err(format!("unknown verb {other}")),
        }
        Ok(())
    }

    /// Frames that reach a frozen tab are handled when it thaws, before its timers.
    fn server_sends(&mut self, text: String) {
        if self.frozen.is_some() { self.held.push(text) } else { self.world.receive(text) }
    }

    fn thaw(&mut self) {
        if let Some(ms) = self.frozen.take() {
            self.world.now_ms += ms;
            for text in std::mem::take(&mut self.held) {
                self.world.receive(text);
            }
            self.world.advance(0);
        }
    }

    fn patch_frame(&mut self, step: &Map<String, Value>, name: &str) -> Result<String, String> {
        let patch_id = self.names.id(name);
        let doc = doc_id(str_of(step, "doc").ok_or("doc")?)?;
        let now = Recipient {
            journal_id: self.world.journal_id().unwrap_or(JournalId(Uuid::v4(0xdead))),
            incarnation: self.world.open.get(&doc).map_or(Incarnation(Uuid::v4(0xbeef)), |o| o.incarnation),
        };
        let first = *self.first.entry(patch_id).or_insert(now);
        let to = if str_of(step, "to") == Some("first") { first } else { now };
        let body = match step.get("body") {
            Some(Value::String(raw)) => raw.clone(),
            Some(body) => body.to_string(),
            None => {
                serde_json::json!({"kind": "text.append", "text": str_of(step, "text").unwrap_or_default()}).to_string()
            }
        };
        let digest = match str_of(step, "digest") {
            Some(digest) => digest.parse().map_err(|_| "digest")?,
            None => digest::patch(&doc, &body).unwrap_or(digest::Digest::of(b"a body without a digest")),
        };
        let expires_in = step.get("expires_in").and_then(Value::as_i64).unwrap_or(30_000);
        let frame = PatchFrame {
            patch_id,
            delivery: step.get("delivery").and_then(Value::as_u64).unwrap_or(1),
            journal_id: to.journal_id,
            doc,
            incarnation: to.incarnation,
            digest,
            body: body.into(),
            expires_at: self.world.server_now().saturating_add_signed(expires_in),
            guarded: step.get("guarded") == Some(&Value::Bool(true)),
            base_seq: None,
        };
        Ok(ServerFrame::Patch(frame).encode())
    }

    fn expect(&mut self, expected: &Value) -> Result<(), String> {
        let sent = std::mem::take(&mut self.world.sent);
        let handled = std::mem::take(&mut self.world.handled);
        let Some(expected) = expected.as_object() else { return Err("expect wants an object".into()) };
        for (part, value) in expected {
            match part.as_str() {
                "text" => self.expect_text(value)?,
                "sent" => self.expect_sent(value, &sent)?,
                "state" => self.expect_state(value)?,
                "handled" => {
                    let handled: Vec<_> = handled.iter().map(|id| Value::String(self.names.name(*id))).collect();
                    equal("handled", &Value::Array(handled), value)?;
                }
                "status" => {
                    let status = match self.world.status() {
                        Some(Status::Live) => "live",
                        Some(Status::Fenced) => "fenced",
                        Some(Status::Closed) => "closed",
                        None => "dead",
                    };
                    equal("status", &Value::String(status.into()), value)?;
                }
                "durability" => {
                    let durability = self.world.session.as_ref().map_or("none", |s| s.durability().as_str());
                    equal("durability", &Value::String(durability.into()), value)?;
                }
                other => return Err(format!("expect {other} is not known")),
            }
        }
        Ok(())
    }

    fn expect_text(&self, value: &Value) -> Result<(), String> {
        for (doc, text) in value.as_object().into_iter().flatten() {
            let actual = self.world.open.get(&doc_id(doc)?).map_or(Value::Null, |o| Value::String(o.text.clone()));
            equal(&format!("text of {doc}"), &actual, text)?;
        }
        Ok(())
    }

    fn expect_state(&mut self, value: &Value) -> Result<(), String> {
        for (name, state) in value.as_object().into_iter().flatten() {
            let patch_id = self.names.id(name);
            let actual = self.world.record(patch_id).map_or("none", |r| r.state.as_str());
            equal(&format!("state of {name}"), &Value::String(actual.into()), state)?;
        }
        Ok(())
    }

    fn expect_sent(&self, value: &Value, sent: &[TabFrame]) -> Result<(), String> {
        let silent = |f: &&TabFrame| {
            !matches!(f, TabFrame::Hello(_) | TabFrame::Open(_) | TabFrame::Ping { .. } | TabFrame::PatchStart { .. })
        };
        let sent: Vec<Value> = sent.iter().filter(silent).map(|f| self.as_told(f)).collect();
        let expected = value.as_array().ok_or("sent wants a list")?;
        let matches = |(actual, expected): (&Value, &Value)| {
            expected.as_object().is_some_and(|fields| fields.iter().all(|(k, v)| actual.get(k) == Some(v)))
        };
        if sent.len() == expected.len() && sent.iter().zip(expected).all(matches) {
            return Ok(());
        }
        let list = |frames: &[Value]| frames.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        Err(format!("sent [{}], expected [{}]", list(&sent), list(expected)))
    }

    /// A frame as the stories write it: patches by their short names.
    fn as_told(&self, frame: &TabFrame) -> Value {
        let mut value: Value = serde_json::from_str(&frame.encode()).unwrap_or_default();
        if let Some(id) = value.get("patch_id").and_then(Value::as_str).and_then(|id| id.parse().ok()) {
            value["patch_id"] = Value::String(self.names.name(id));
        }
        value
    }
}

fn equal(what: &str, actual: &Value, expected: &Value) -> Result<(), String> {
    if actual == expected { Ok(()) } else { Err(format!("{what} is {actual}, expected {expected}")) }
}

fn str_of<'s>(step: &'s Map<String, Value>, name: &str) -> Option<&'s str> {
    step.get(name).and_then(Value::as_str)
}

fn doc_id(name: &str) -> Result<DocId, String> {
    DocId::new(name).ok_or_else(|| format!("document {name:?}"))
}

/// Whether the host gets a reconcile hook before the context dies. A real host has its hook when it opens the
/// document; until the story says what it answers, it cannot tell.
fn comes_a_hook(rest: &[Map<String, Value>]) -> bool {
    let this_context = rest.iter().take_while(|s| !s.contains_key("reload") && !s.contains_key("os_crash"));
    this_context.filter_map(|s| str_of(s, "reconcile")).any(|mode| mode != "none")
}

fn handler_mode(text: &str) -> Result<HandlerMode, String> {
    match text {
        "ok" => Ok(HandlerMode::Ok),
        "throw" => Ok(HandlerMode::Throw),
        "later" => Ok(HandlerMode::Later),
        _ => {
            text.strip_prefix("refuse:").map(|r| HandlerMode::Refuse(r.into())).ok_or_else(|| format!("handler {text}"))
        }
    }
}

fn reconcile_mode(text: &str) -> Result<ReconcileMode, String> {
    match text {
        "none" => Ok(ReconcileMode::None),
        "present" => Ok(ReconcileMode::Answers(ReconcileOutcome::Present)),
        "absent" => Ok(ReconcileMode::Answers(ReconcileOutcome::Absent)),
        "unknown" => Ok(ReconcileMode::Answers(ReconcileOutcome::Unknown)),
        "never" => Ok(ReconcileMode::Never),
        other => Err(format!("reconcile {other}")),
    }
}
