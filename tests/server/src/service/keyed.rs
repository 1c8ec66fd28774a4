//! A keyed write, from its claim to its answer (S1–S7).

use std::sync::Arc;
use std::time::Duration;

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, PatchId};
use patchkeep_core::json;

use super::diff::unified;
use super::say::Say;
use super::{here, stored};
use crate::app::{App, Boot};
use crate::decide::{
    Answer, Attempt, Claim, ClaimFacts, Elected, ExecuteFacts, Execution, KeyId, KeyRow, KeyState, Plan, Rejoin, Since,
    View, Write, applied, claim, execute, expired, in_flight, key_unknown, outcome_unknown, rejoin, too_many, view,
};
use crate::faults::Point;
use crate::store::{Candidate, Guard, Store, StoreError, Stored, Tx, Word, fresh_id};
use crate::waiters::Waiter;

/// How long a caller waits before it asks about an attempt that is still under way, in ms.
pub(crate) const ASK_AGAIN_MS: u64 = 1000;

/// How often a tab is elected for one attempt, should they move under its hands. Each is passed over the second time.
const ELECTIONS: usize = 8;

/// A keyed edit of one document.
#[derive(Clone, Debug)]
pub(crate) struct KeyedWrite {
    pub(crate) attempt: Attempt,
    pub(crate) doc: DocId,
    /// The edit's own JSON text.
    pub(crate) edit: String,
    pub(crate) guarded: bool,
}

/// What the caller gets.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answer(Answer),
    /// The connection is lost without an answer: a fault switch, or the server's end.
    Lose,
}

/// Why a unit of work was undone: the store's fault, or the claim is another attempt's by now.
pub(crate) enum Undo {
    Store(StoreError),
    ClaimLost,
    /// The write itself said no; this is to be answered, and nothing of it stays.
    Refused(Answer),
    /// The elected tab's socket should be this process's and is not known: it said hello, or replaced its content, in a
    /// unit of work that shares this one's commit; or it has just ended.
    Moved(Elected),
}

impl From<StoreError> for Undo {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What an attempt does after a unit of work.
enum Next {
    Tell(Told),
    Execute(Box<KeyRow>),
    Wait(Waiting),
}

/// An answer, or what it is made of outside the transaction.
enum Told {
    Answer(Answer),
    Unknown { row: Box<KeyRow>, here: bool, base: String, now: String, current_seq: u64, unflushed: bool },
}

struct Waiting {
    id: KeyId,
    patch_id: PatchId,
    waiter: Waiter,
    /// Until when, on the server's clock, in ms.
    until: u64,
    /// Another attempt caused what comes.
    replayed: bool,
}

/// Runs a keyed write to its answer. It goes on where the caller has gone: the state settles all the same.
pub(crate) async fn keyed<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    write: KeyedWrite,
) -> Result<Outcome, StoreError> {
    let (app2, boot2, attempt) = (app.clone(), boot.clone(), write.attempt.clone());
    let mut next = app.store.transact(move |tx| begin(tx, &app2, &boot2, &attempt)).await?;
    let executes = matches!(next, Next::Execute(_));
    if executes {
        app.faults.pass_by(Point::Claimed).await;
    }
    let mut moved = Vec::new();
    for _ in 0..ELECTIONS {
        let Next::Execute(row) = &next else { break };
        let (app2, boot2, row, write) = (app.clone(), boot.clone(), row.clone(), write.clone());
        let gone = moved.clone();
        let written = move |tx: &dyn Tx| {
            let next = run(tx, &app2, &boot2, &row, &write, &gone)?;
            app2.faults.pass(Point::Writing);
            Ok(next)
        };
        match app.store.transact(written).await {
            Ok(executed) => next = executed,
            Err(Undo::Moved(tab)) => moved.push(tab),
            Err(Undo::ClaimLost | Undo::Refused(_)) => next = Next::Tell(Told::Answer(in_flight(ASK_AGAIN_MS))),
            Err(Undo::Store(error)) => return Err(error),
        }
    }
    if executes {
        app.faults.pass_by(Point::Committed).await;
    }
    match next {
        Next::Tell(told) => Ok(Outcome::Answer(compose(told).await)),
        Next::Wait(waiting) => {
            let outcome = wait(app, boot, waiting).await;
            app.faults.pass_by(Point::Settled).await;
            outcome
        }
        // The claim runs out with its lease, and nothing was done under it.
        Next::Execute(_) => Ok(Outcome::Answer(in_flight(ASK_AGAIN_MS))),
    }
}

/// The claim of a write that is no edit of a document (S1, S3): the key is this attempt's, or that is the answer.
pub(crate) async fn claim_only<S: Store>(
    app: &Arc<App<S>>,
    attempt: Attempt,
) -> Result<Result<KeyRow, Answer>, StoreError> {
    let (app2, boot) = (app.clone(), app.boot());
    let next = app.store.transact(move |tx| begin(tx, &app2, &boot, &attempt)).await?;
    Ok(match next {
        Next::Execute(row) => Ok(*row),
        Next::Tell(told) => Err(compose(told).await),
        // Under this fingerprint nothing is ever handed out.
        Next::Wait(_) => Err(in_flight(ASK_AGAIN_MS)),
    })
}

/// Writes the row of a claimed write while the claim is still this attempt's; otherwise everything is undone with it.
pub(crate) fn complete(tx: &dyn Tx, row: &KeyRow) -> Result<(), Undo> {
    if tx.update_key(row, Guard::Claim(row.claim_token))? { Ok(()) } else { Err(Undo::ClaimLost) }
}

/// K8: what is known of a key, by its name alone. Never claims, never writes.
pub(crate) async fn ask<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, id: KeyId) -> Result<Answer, StoreError> {
    let boot = boot.clone();
    let told = app
        .store
        .transact(move |tx| match tx.key(&id)? {
            Some(row) => look(tx, &boot, row, true),
            None => Ok(Told::Answer(key_unknown())),
        })
        .await?;
    Ok(compose(told).await)
}

/// S1, S3, S7: the claim, in its own short transaction, before any guard of the write path.
fn begin<S: Store>(tx: &dyn Tx, app: &Arc<App<S>>, boot: &Arc<Boot>, attempt: &Attempt) -> Result<Next, StoreError> {
    let facts =
        ClaimFacts { now: tx.now(), token: fresh_id(), lease_ms: app.config.lease_ms, watermark: tx.watermark()? };
    let found = tx.key(&attempt.id)?;
    let told = |answer| Ok(Next::Tell(Told::Answer(answer)));
    match claim(found.as_ref(), attempt, &facts) {
        // What is settled makes room; what is open and unknown waits for a person (S10).
        Claim::Take(_) if tx.open_count(&attempt.id.principal)? >= app.config.max_open_keys => {
            told(too_many("too_many_open_keys", "too many writes of this user are open", ASK_AGAIN_MS))
        }
        Claim::Take(row) => {
            if tx.insert_key(&row)? {
                Ok(Next::Execute(row.into()))
            } else {
                told(in_flight(ASK_AGAIN_MS))
            }
        }
        Claim::TakeOver { row, from } => {
            if tx.update_key(&row, Guard::Token(from))? {
                Ok(Next::Execute(row.into()))
            } else {
                told(in_flight(ASK_AGAIN_MS))
            }
        }
        Claim::Tell(answer) => told(answer),
        Claim::Look => match found {
            Some(row) if attempt.ask => look(tx, boot, row, true).map(Next::Tell),
            Some(row) => join(tx, app, boot, row, attempt.number),
            None => told(in_flight(ASK_AGAIN_MS)),
        },
    }
}

/// S3, S7: an attempt on a key that is out with a tab, or settled.
fn join<S: Store>(
    tx: &dyn Tx,
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    row: KeyRow,
    number: u64,
) -> Result<Next, StoreError> {
    let Some(plan) = row.plan.clone() else { return look(tx, boot, row, true).map(Next::Tell) };
    let guard = Guard::Patch(plan.patch_id, row.state);
    if row.state == KeyState::Acked && number > row.attempt {
        // Should it be lost later, only an attempt after this one may plan it again.
        tx.update_key(&KeyRow { attempt: number, ..row.clone() }, guard)?;
    }
    if !matches!(row.state, KeyState::Delivered | KeyState::Unknown) {
        return look(tx, boot, row, true).map(Next::Tell);
    }
    let row = expired(&row, tx.now()).unwrap_or(row);
    // A hello in this same commit has settled what it lists, or asks already.
    let here = here(tx, boot, plan.recipient.tab_id, &plan.recipient.doc)?;
    let rejoined = rejoin(&row, number, here.as_ref());
    if !tx.update_key(rejoined.row(), guard)? {
        return Ok(Next::Tell(Told::Answer(in_flight(ASK_AGAIN_MS))));
    }
    if matches!(rejoined, Rejoin::Gone(_)) {
        // Its socket may be another process's.
        tx.tell_others(&Word::Forward(plan.patch_id))?;
    }
    let mut until = plan.expires_at;
    let mut say = Say::default();
    match (&rejoined, rejoined.row().plan.as_ref()) {
        (Rejoin::Again(_), Some(plan)) => say.hand_out(plan),
        (Rejoin::Ask(_), Some(plan)) => say.ask(plan),
        _ if row.state == KeyState::Unknown => return look(tx, boot, row, true).map(Next::Tell),
        _ => {}
    }
    if !matches!(rejoined, Rejoin::Gone(_)) {
        // It was asked just now: its word is waited for, whatever the patch's own deadline.
        until = until.max(tx.now().saturating_add(app.config.patch_timeout_ms));
    }
    let waiter = boot.waiters.join(plan.patch_id);
    say.after_commit(tx, app, boot, plan.recipient.tab_id, here.as_ref().map(|h| h.conn.as_str()))?;
    Ok(Next::Wait(Waiting { id: row.id, patch_id: plan.patch_id, waiter, until, replayed: true }))
}

/// S2, S4, S5: the claimed write. Its row is written under the claim token, or nothing is.
fn run<S: Store>(
    tx: &dyn Tx,
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    row: &KeyRow,
    write: &KeyedWrite,
    gone: &[Elected],
) -> Result<Next, Undo> {
    let workspace = &row.id.principal.workspace;
    let document = tx.document(workspace, &write.doc)?;
    let tab = elect(tx, boot, row, &write.doc, gone)?;
    let elected = tab.as_ref().map(|tab| &tab.elected);
    let edit = json::parse(&write.edit).unwrap_or(json::Value::Null);
    let wanted = Write { doc: &write.doc, edit_text: &write.edit, edit: &edit, guarded: write.guarded };
    let facts = ExecuteFacts {
        now: tx.now(),
        patch_id: PatchId(fresh_id()),
        patch_timeout_ms: elected.and_then(|_| app.faults.take_expiry()).unwrap_or(app.config.patch_timeout_ms),
        max_edit_bytes: app.config.max_edit_bytes(),
        max_doc_bytes: app.config.max_doc_bytes,
    };
    match execute(row, document.as_ref(), &wanted, elected, &facts) {
        Execution::Refuse(row) => {
            complete(tx, &row)?;
            Ok(Next::Tell(look(tx, boot, row, false)?))
        }
        Execution::Store { row, document } => {
            if !tx.put_document(workspace, &write.doc, &document)? {
                return Err(Undo::ClaimLost);
            }
            complete(tx, &row)?;
            let (workspace, doc) = (workspace.clone(), write.doc.clone());
            stored(tx, boot, Stored { workspace, doc, seq: document.seq, but: None })?;
            Ok(Next::Tell(look(tx, boot, row, false)?))
        }
        Execution::HandOut(row) => {
            complete(tx, &row)?;
            tx.put_base(&row.id, document.as_ref().map_or("", |d| &d.text))?;
            let Some(plan) = &row.plan else { return Err(Undo::ClaimLost) };
            let waiter = boot.waiters.join(plan.patch_id);
            let mut say = Say::default();
            say.hand_out(plan);
            say.after_commit(tx, app, boot, plan.recipient.tab_id, Some(&plan.conn))?;
            if tab.is_some_and(|tab| !tab.here) {
                tx.tell_others(&Word::Forward(plan.patch_id))?;
            }
            let (patch_id, until) = (plan.patch_id, plan.expires_at);
            Ok(Next::Wait(Waiting { id: row.id, patch_id, waiter, until, replayed: false }))
        }
    }
}

/// The tab that is to have the edit, among the sockets of all processes (S5). What was fenced or replaced since it was
/// opened is passed over.
fn elect(tx: &dyn Tx, boot: &Boot, row: &KeyRow, doc: &DocId, gone: &[Elected]) -> Result<Option<Candidate>, Undo> {
    for tab in tx.candidates(&row.id.principal, doc)? {
        let Elected { tab_id, conn, incarnation, .. } = &tab.elected;
        if tx.newest(*tab_id, doc)?.is_none_or(|newest| newest.incarnation != *incarnation) {
            continue;
        }
        let here = boot.hub.here(*tab_id, doc).filter(|here| here.conn == *conn);
        if !tab.here || here.is_some_and(|here| here.open.is_some_and(|(open, _)| open == *incarnation)) {
            return Ok(Some(tab));
        }
        if !gone.contains(&tab.elected) {
            return Err(Undo::Moved(tab.elected));
        }
        // It was said since, and the socket is still not there: it ended, and the word of that did not arrive.
        tx.closed(*tab_id, doc, Some(*incarnation))?;
    }
    Ok(None)
}

/// What a row says now.
fn look(tx: &dyn Tx, boot: &Arc<Boot>, row: KeyRow, replayed: bool) -> Result<Told, StoreError> {
    let row = expired(&row, tx.now()).unwrap_or(row);
    let here = match &row.plan {
        Some(Plan { recipient, .. }) => {
            let here = boot.hub.here(recipient.tab_id, &recipient.doc).map(|here| here.journal_id);
            here == Some(recipient.journal_id) || tx.elsewhere(recipient.tab_id)? == Some(recipient.journal_id)
        }
        None => false,
    };
    Ok(match view(&row, replayed, false) {
        View::Answer(answer) => Told::Answer(answer),
        View::Applied => Told::Answer(applied(&row, here, replayed)),
        View::Waiting => Told::Answer(in_flight(ASK_AGAIN_MS)),
        View::Unknown => {
            let doc = row.plan.as_ref().map(|p| &p.recipient.doc);
            let stored = match doc {
                Some(doc) => tx.document(&row.id.principal.workspace, doc)?,
                None => None,
            };
            let base = tx.base(&row.id)?.unwrap_or_default();
            let (now, current_seq) = stored.map_or_else(Default::default, |d| (d.text, d.seq));
            Told::Unknown { unflushed: unflushed(tx, &row)?, row: Box::new(row), here, base, now, current_seq }
        }
    })
}

/// Whether content that was never saved may still hold the effect and be saved: not what was at home on the server alone
/// and is fenced. A local draft brings it back under another incarnation.
fn unflushed(tx: &dyn Tx, row: &KeyRow) -> Result<bool, StoreError> {
    let Some(Plan { recipient, .. }) = &row.plan else { return Ok(true) };
    let newest = tx.newest(recipient.tab_id, &recipient.doc)?;
    let fenced = newest.is_some_and(|newest| newest.incarnation != recipient.incarnation);
    Ok(recipient.homed == Homed::Elsewhere || !fenced)
}

/// The diff is made off the store's thread: it may take a while.
async fn compose(told: Told) -> Answer {
    match told {
        Told::Answer(answer) => answer,
        Told::Unknown { row, here, base, now, current_seq, unflushed } => {
            let diff = tokio::task::spawn_blocking(move || unified(&base, &now)).await.unwrap_or_default();
            outcome_unknown(&row, here, &Since { current_seq, diff }).unflushed_possible(unflushed)
        }
    }
}

/// S6: holds the request until the patch settles or its time is over.
async fn wait<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, mut waiting: Waiting) -> Result<Outcome, StoreError> {
    loop {
        let (boot2, id, patch_id) = (boot.clone(), waiting.id.clone(), waiting.patch_id);
        let (until, replayed) = (waiting.until, waiting.replayed);
        let told = app.store.transact(move |tx| settled(tx, &boot2, &id, patch_id, until, replayed)).await?;
        if let Some(told) = told {
            return Ok(Outcome::Answer(compose(told).await));
        }
        let left = Duration::from_millis(waiting.until.saturating_sub(app.now()).max(1));
        let signal = tokio::select! {
            signal = waiting.waiter.next() => signal,
            () = tokio::time::sleep(left) => continue,
            () = boot.over() => return Ok(Outcome::Lose),
        };
        if signal.lose {
            return Ok(Outcome::Lose);
        }
    }
}

fn settled(
    tx: &dyn Tx,
    boot: &Arc<Boot>,
    id: &KeyId,
    patch_id: PatchId,
    until: u64,
    replayed: bool,
) -> Result<Option<Told>, StoreError> {
    let Some(row) = tx.key(id)?.filter(|row| row.plan.as_ref().is_some_and(|p| p.patch_id == patch_id)) else {
        // It was released and claimed anew meanwhile: the outcome is that attempt's.
        return Ok(Some(Told::Answer(in_flight(ASK_AGAIN_MS))));
    };
    let over = tx.now() >= until;
    let row = match expired(&row, tx.now()) {
        Some(late) => {
            tx.update_key(&late, Guard::Patch(patch_id, row.state))?;
            late
        }
        None => row,
    };
    match view(&row, replayed, !over) {
        View::Waiting => Ok(None),
        _ => look(tx, boot, row, replayed).map(Some),
    }
}
