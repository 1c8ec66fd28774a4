//! `patchkeep-agent`: a caller that writes with an op key (§8), from the command line.
//!
//! | file | concept |
//! | --- | --- |
//! | `args` | the command line, and the edit it spells |
//! | [`state`] | its ops on the disk, and whose they are (K1, T5) |
//! | [`web`] | the network |
//! | [`driver`] | the core's outbox between the two |
//! | [`end`], `report` | exit codes, and what is printed |
//!
//! What is sent when, how answers are read and when to stop is the core's: the same machine as in a browser. An
//! invocation queues one op, durable before its first attempt; whatever ends the process, `resume` goes on with the
//! same key and bytes.

mod args;
pub mod driver;
pub mod end;
mod report;
pub mod state;
pub mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use patchkeep_core::ids::TabId;
use patchkeep_core::outbox::{
    self, EnqueueError, NewOp, OnFailure, Op, OpKey, OpState, OutboxEvent, Outcome, Standing,
};
use tokio::time::Instant;

pub use args::{Cli, Command, Common, Patch, Place, Verdict, Where};

use crate::store::fresh_id;
use driver::Driver;
use end::{End, released_at};
use report::Report;
use state::{Found, OpStore, is_open};
use web::{Asked, Said, Web};

/// Runs one invocation.
pub async fn run(cli: Cli) -> ExitCode {
    let ended = match cli.command {
        Command::Patch(patch) => run_patch(&patch).await,
        Command::Resume { key, wait, common } => run_resume(key.as_deref(), wait, &common).await,
        Command::Pending { place, json } => run_pending(&place, json),
        Command::Ask { key, common } => run_ask(&key, &common).await,
        Command::Settle { key, verdict, common } => run_settle(&key, verdict, &common).await,
        Command::Read { doc, common } => run_read(&doc, &common).await,
    };
    match ended {
        Ok(end) => end.exit_code(),
        Err(message) => {
            eprintln!("patchkeep-agent: {message}");
            End::Other.exit_code()
        }
    }
}

async fn run_read(doc: &str, common: &Common) -> Result<End, String> {
    let reply = common.web()?.read(doc).await;
    let Some(text) = reply.text().filter(|_| reply.status == 200) else {
        return Err(if reply.status == 0 { format!("no answer from {}", common.server) } else { reply.failure() });
    };
    if common.json {
        println!("{}", reply.body);
    } else {
        print!("{text}");
    }
    Ok(End::Done)
}

/// The outcome of an earlier invocation, whose answer was ambiguous: only what the server knows of the key counts.
async fn run_ask(key: &str, common: &Common) -> Result<End, String> {
    let reply = common.web()?.ask(key).await;
    let standing = Standing { keys_listed: true, earlier_ambiguous: true, ..Standing::default() };
    let reading = outbox::read(&reply.answer(), standing);
    let end = match (reading.outcome, reply.never_sent) {
        (_, true) => End::Other,
        (Outcome::Ambiguous, _) if reply.status == 401 => End::Other,
        (outcome, _) => End::of_outcome(outcome),
    };
    Report::new(common.json).asked(end, reading.code.as_deref(), &reply, key);
    Ok(end)
}

async fn run_settle(key: &str, verdict: Verdict, common: &Common) -> Result<End, String> {
    let (web, applied) = (common.web()?, verdict == Verdict::Applied);
    let verdict = if applied { crate::decide::Verdict::Applied } else { crate::decide::Verdict::NotApplied };
    let reply = web.settle(key, verdict).await;
    let end = End::of_settling(&reply);
    if end == End::Done
        && let Some(key) = OpKey::new(key)
        && let Asked::Answered(said) = web.capabilities().await
    {
        // The op here, if there is one, hears of it too.
        let driver = common.driver(web, said)?;
        if let Found::Idle(from, op) = driver.claim(&key).map_err(broken)?
            && driver.adopt(from, *op)
        {
            driver.act(|outbox, now| outbox.settle(now, &key, applied));
        }
    }
    Report::new(common.json).settled(end, &reply, key);
    Ok(end)
}

async fn run_patch(patch: &Patch) -> Result<End, String> {
    let report = Report::new(patch.common.json);
    let key = patch.key.as_deref().map(|key| OpKey::new(key).ok_or("an op key has 1 to 255 visible ASCII characters"));
    let (key, body) = (key.transpose()?, patch.body()?);
    let web = patch.common.web()?;
    let Asked::Answered(said) = web.capabilities().await else {
        report.unreachable(key.as_ref().map_or("", OpKey::as_str));
        return Ok(End::Other);
    };
    if let Some(refusal) = patch.common.refusal(&web, &said).await {
        report.not_taken(&refusal, key.as_ref().map_or("", OpKey::as_str));
        return Ok(End::Other);
    }
    let driver = patch.common.driver(web, said)?;
    if let Some(key) = &key {
        match driver.claim(key).map_err(broken)? {
            Found::Free => {}
            Found::Idle(from, ref op) if driver.adopt(from, Op::clone(op)) => {}
            Found::Idle(..) | Found::Busy => return Err(format!("another process is at work on {key}")),
            Found::Corrupt => return Err(format!("what is kept of {key} cannot be read")),
        }
    }
    let (is_named, new) = (key.is_some(), write(driver.web(), &patch.doc, body, key.clone()));
    let key = match driver.enqueue(new) {
        Ok(key) => key,
        Err(EnqueueError::KeyReused) => {
            report.reused_here(key.as_ref().map_or("", OpKey::as_str));
            return Ok(End::Conflict);
        }
        Err(error) => return Err(format!("{} · nothing was sent", error.code())),
    };
    let until = Instant::now() + Duration::from_secs(patch.wait);
    if is_named {
        ask_first(&driver, &key, until).await;
    }
    let ended = drive(&driver, &key, until, &report).await;
    let ended = match ended {
        // A person took this key up again, and the server says that the attempt it knows of left nothing behind.
        Ok(op) if is_named && released_at(&op).is_some_and(|past| past >= op.attempts) && take_up(&driver, &key) => {
            drive(&driver, &key, until, &report).await
        }
        ended => ended,
    };
    Ok(match ended {
        Ok(op) => {
            let end = End::of(&op);
            report.ended(end, &op);
            end
        }
        Err(Gone) => {
            report.unreachable(key.as_str());
            End::Other
        }
    })
}

/// A key that a person names anew may stand for an op of which nobody could tell: the server is asked first, and only
/// an op of which it says that there is no effect is attempted again (K8).
async fn ask_first(driver: &Driver, key: &OpKey, until: Instant) {
    if driver.act(|outbox, now| outbox.ask_again(now, key)) {
        let answered = driver.until(|driver| (!driver.is_asking(key) && !driver.is_busy()).then_some(()));
        // Unanswered, it stays as unknown as it was.
        let _in_time = tokio::time::timeout_at(until, answered).await;
    }
    if driver.op(key).is_some_and(|op| matches!(op.state, OpState::Refused | OpState::Lost)) {
        take_up(driver, key);
    }
}

fn take_up(driver: &Driver, key: &OpKey) -> bool {
    let past = driver.op(key).and_then(|op| released_at(&op)).unwrap_or(0);
    driver.act(|outbox, now| outbox.take_up(now, key, past))
}

async fn run_resume(key: Option<&str>, wait: u64, common: &Common) -> Result<End, String> {
    let report = Report::of_several(common.json);
    let web = common.web()?;
    let Asked::Answered(said) = web.capabilities().await else {
        report.unreachable("");
        return Ok(End::Other);
    };
    if let Some(refusal) = common.refusal(&web, &said).await {
        report.not_taken(&refusal, "");
        return Ok(End::Other);
    }
    let driver = common.driver(web, said)?;
    let wanted = |op: &Op| key.map_or_else(|| is_open(op.state), |key| op.key.as_str() == key);
    let idle: Vec<(TabId, Op)> = driver.idle().map_err(broken)?.into_iter().filter(|(_, op)| wanted(op)).collect();
    let mut reports = BTreeMap::new();
    for (from, op) in idle {
        let key = op.key.clone();
        if driver.adopt(from, op) {
            driver.act(|outbox, now| outbox.ask_again(now, &key));
            reports.insert(key, Report::of_several(common.json));
        }
    }
    if reports.is_empty() {
        report.nothing();
        return Ok(if key.is_some() { End::Other } else { End::Done });
    }
    let until = Instant::now() + Duration::from_secs(wait);
    let drives = reports.iter().map(|(key, report)| drive(&driver, key, until, report));
    let ended = futures_util::future::join_all(drives).await;
    let mut worst = End::Done;
    for ((key, report), ended) in reports.iter().zip(ended) {
        let end = match ended {
            Ok(op) => {
                report.ended(End::of(&op), &op);
                End::of(&op)
            }
            Err(Gone) => {
                report.unreachable(key.as_str());
                End::Other
            }
        };
        worst = if worst == End::Done { end } else { worst };
    }
    Ok(worst)
}

fn run_pending(place: &Place, json: bool) -> Result<End, String> {
    let report = Report::new(json);
    let stored = state::all(&place.folder()?).map_err(broken)?;
    let open: Vec<_> = stored.iter().filter(|s| s.op.as_ref().is_none_or(|op| is_open(op.state))).collect();
    open.iter().for_each(|stored| report.pending(stored));
    if open.is_empty() {
        report.nothing();
    }
    Ok(End::Done)
}

/// There is no trace of the op, and nothing was sent.
struct Gone;

/// How often it is asked whether the effect is saved while somebody waits for it.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Goes on with an op until it is settled, or its time is over; an attempt that is under way then is waited for.
async fn drive(driver: &Driver, key: &OpKey, until: Instant, report: &Report) -> Result<Op, Gone> {
    let settled = driver.until(|driver| match driver.op(key) {
        None => Some(Err(Gone)),
        Some(op) => {
            report.heard(&op);
            let is_over = op.state.is_settled() || op.state == OpState::Held || driver.is_fenced();
            (is_over && !driver.is_asking(key) && !driver.is_busy()).then_some(Ok(op))
        }
    });
    let hurry = async {
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            if driver.op(key).is_some_and(|op| op.state == OpState::Applied) {
                driver.tell(OutboxEvent::Drain);
            }
        }
    };
    tokio::select! {
        ended = settled => return ended,
        () = tokio::time::sleep_until(until) => {}
        () = hurry => {}
    }
    driver.tell(OutboxEvent::Suspend);
    driver.until(|driver| (!driver.is_busy()).then_some(())).await;
    if driver.op(key).is_some_and(|op| op.attempts == 0) {
        driver.act(|outbox, now| outbox.cancel(now, key));
    }
    let op = driver.op(key).ok_or(Gone)?;
    report.heard(&op);
    Ok(op)
}

/// A keyed write of one document. Its lane is the document; one that failed does not hold up the others, which are
/// other people's intents.
pub(crate) fn write(web: &Web, doc: &str, body: String, key: Option<OpKey>) -> NewOp {
    NewOp {
        key,
        method: "PATCH".into(),
        origin: web.origin().to_owned(),
        path: web.doc_path(doc),
        body: Some(body),
        key_in_body: false,
        content_type: "application/json".into(),
        lane: doc.to_owned(),
        on_failure: OnFailure::Pass,
        expects_other_type: false,
        deadline_ms: None,
        may_be_volatile: false,
    }
}

/// The outbox in this folder, for this server and whom it takes us for. `named` overrules that (T6).
pub(crate) fn start(folder: &Path, web: Web, named: Option<&str>, said: Said) -> Result<Driver, state::OpenError> {
    let principal = named.map(str::to_owned).or_else(|| said.principal.clone());
    let scope = format!("{} {}", web.origin(), principal.as_deref().unwrap_or(""));
    let store = OpStore::open(folder, &scope, TabId(fresh_id()))?;
    Ok(Driver::start(web, principal, store, said))
}

impl Common {
    fn web(&self) -> Result<Web, String> {
        Web::new(&self.server, &self.token)
    }

    /// The server's refusal of the token, where it is not known whose it is: an op that is kept for nobody is not found
    /// by `resume` when the next token says whom it is of (T6).
    async fn refusal(&self, web: &Web, said: &Said) -> Option<web::Reply> {
        let is_known = self.principal.is_some() || said.principal.is_some();
        if said.speaks && !is_known { web.refusal().await } else { None }
    }

    fn driver(&self, web: Web, said: Said) -> Result<Driver, String> {
        start(&self.place.folder()?, web, self.principal.as_deref(), said).map_err(broken)
    }
}

impl Place {
    /// The folder of the state.
    ///
    /// # Errors
    /// Nobody said where it is.
    pub fn folder(&self) -> Result<PathBuf, String> {
        let below =
            |name: &str, rest: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(|v| Path::new(&v).join(rest));
        let state = self.state.clone();
        let state = state.or_else(|| below("XDG_STATE_HOME", "patchkeep"));
        state.or_else(|| below("HOME", ".local/state/patchkeep")).ok_or_else(|| "--state is needed".into())
    }
}

fn broken(error: state::OpenError) -> String {
    format!("the state cannot be used: {error} · nothing was sent")
}
