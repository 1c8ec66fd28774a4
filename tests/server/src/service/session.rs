//! What the frames of a tab do (R1–R7, T3, T5).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use patchkeep_core::frame::{
    Adopted, DEFAULT_MAX_FRAME_BYTES, Hello, Homed, OpenDoc, PROTOCOL, Reason, RejectCode, ReportedState, ServerFrame,
    TabFrame, UnconfirmedEntry, Welcome,
};
use patchkeep_core::ids::{ConnId, DocId, Incarnation, JournalId, PatchId, TabId};

use super::here;
use super::say::Say;
use crate::app::{App, Boot};
use crate::decide::{
    Announced, KeyRow, Place, Settled, Speaker, acknowledged, admit, adopted, not_seen, place, refused, resume, unknown,
};
use crate::hub::Connection;
use crate::principal::Principal;
use crate::store::{Store, StoreError, Tx, Word};
use crate::way_out::WayOut;

/// A connection that said hello.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) conn: String,
    pub(crate) principal: Principal,
    pub(crate) tab_id: TabId,
    epoch: u64,
    journal_id: JournalId,
    /// Whether the page could be seen when it said hello (S5).
    visible: bool,
}

/// How much of a `welcome` goes to the list of documents; the rest follows as `opened` frames.
const WELCOME_SHARE: usize = 2;
/// A document's entry on the wire, with every byte of its id escaped.
const OPENED_BYTES: usize = 3300;

/// Takes a hello: the tab id is this connection's, older ones are fenced, and what was open is settled (R1–R3, R7).
pub(crate) async fn hello<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    principal: Principal,
    conn_id: ConnId,
    hello: Hello,
    out: WayOut,
) -> Result<Result<Session, RejectCode>, StoreError> {
    let session = Session {
        conn: format!("{}/{conn_id}", boot.id),
        principal,
        tab_id: hello.tab_id,
        epoch: hello.epoch,
        journal_id: hello.journal_id,
        visible: hello.visible,
    };
    let (app2, boot) = (app.clone(), boot.clone());
    let greet = move |tx: &dyn Tx| {
        let owner = match admit(tx.tab(hello.tab_id)?.as_ref(), &hello, &session.principal, &session.conn) {
            Ok(owner) => owner,
            Err(code) => return Ok(Err(code)),
        };
        for open in &hello.docs {
            if is_over(place_of(tx, &session, open)?) {
                return Ok(Err(RejectCode::SettledElsewhere));
            }
        }
        tx.put_tab(hello.tab_id, &owner)?;
        tx.connected(hello.tab_id, session.visible)?;
        tx.tell_others(&Word::Came(hello.tab_id))?;
        let mut say = Say::default();
        let mut opened = Vec::new();
        for open in &hello.docs {
            if let Some(seq) = announce(tx, &mut say, &session, open)? {
                tx.opened(hello.tab_id, &owner, &open.doc, open.incarnation, open.homed)?;
                opened.push((open.doc.clone(), open.incarnation, open.homed, seq));
            }
        }
        tx.only_these(hello.tab_id)?;
        for dead in &hello.adopted {
            adopt(tx, &boot, &mut say, &session, dead)?;
        }
        welcome(tx, &app2, &boot, &session, conn_id, opened, out);
        say.after_commit(tx, &app2, &boot, session.tab_id, Some(&session.conn))?;
        Ok(Ok(session))
    };
    app.store.transact(greet).await
}

/// The connection counts from here on, and `welcome` is the first frame on it.
fn welcome<S: Store>(
    tx: &dyn Tx,
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    session: &Session,
    conn_id: ConnId,
    opened: Vec<(DocId, Incarnation, Homed, u64)>,
    out: WayOut,
) {
    let (app, boot, session) = (app.clone(), boot.clone(), session.clone());
    tx.after_commit(Box::new(move || {
        if boot.is_over() {
            return;
        }
        let Session { conn, principal, tab_id, journal_id, .. } = session;
        let connection = Connection { conn: conn.clone(), principal, tab_id, journal_id, out };
        boot.hub.connect(connection);
        let most = (app.config.max_frame_bytes / WELCOME_SHARE / OPENED_BYTES).max(1);
        let listed = opened.iter().take(most).map(|(doc, incarnation, _, seq)| (doc.clone(), *incarnation, *seq));
        let frame = Welcome {
            protocol: PROTOCOL,
            boot_id: boot.id,
            conn_id,
            now: app.now(),
            heartbeat_ms: app.config.heartbeat_ms,
            max_frame_bytes: u64::try_from(app.config.max_frame_bytes).unwrap_or(DEFAULT_MAX_FRAME_BYTES as u64),
            docs: listed.collect(),
            features: Vec::new(),
        };
        boot.hub.send(tab_id, &conn, &ServerFrame::Welcome(frame));
        for (at, (doc, incarnation, homed, seq)) in opened.into_iter().enumerate() {
            boot.hub.set_open(tab_id, &conn, &doc, Some((incarnation, homed)));
            if at >= most {
                boot.hub.send(tab_id, &conn, &ServerFrame::Opened { doc, incarnation, seq });
            }
        }
    }));
}

/// Takes an `open`: a document opens later, or its content was replaced.
pub(crate) async fn open<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    session: &Session,
    open: OpenDoc,
) -> Result<(), StoreError> {
    let (app2, boot, session) = (app.clone(), boot.clone(), session.clone());
    if boot.hub.is_full(session.tab_id, &session.conn, &open.doc, app.config.max_open_docs) {
        // A frame that is passed over would leave the tab waiting; what it has open it tells with its next hello.
        tracing::warn!(conn = %session.conn, doc = %open.doc, "more documents than a socket may have open");
        boot.hub.give_up(session.tab_id, &session.conn);
        return Ok(());
    }
    let announced = move |tx: &dyn Tx| {
        if !is_current(tx, &boot, &session)? {
            return Ok(());
        }
        let mut say = Say::default();
        let Some(seq) = announce(tx, &mut say, &session, &open)? else {
            // Nothing of this content is taken any more, and its tab must not wait for a word that does not come.
            let (boot, Session { conn, tab_id, .. }) = (boot.clone(), session.clone());
            tx.after_commit(Box::new(move || boot.hub.reject(tab_id, &conn, RejectCode::SettledElsewhere)));
            return Ok(());
        };
        if let Some(owner) = tx.tab(session.tab_id)? {
            tx.opened(session.tab_id, &owner, &open.doc, open.incarnation, open.homed)?;
        }
        let (boot2, Session { conn, tab_id, .. }) = (boot.clone(), session.clone());
        tx.after_commit(Box::new(move || {
            let OpenDoc { doc, incarnation, homed, .. } = open;
            boot2.hub.set_open(tab_id, &conn, &doc, Some((incarnation, homed)));
            boot2.hub.send(tab_id, &conn, &ServerFrame::Opened { doc, incarnation, seq });
        }));
        say.after_commit(tx, &app2, &boot, session.tab_id, Some(&session.conn))?;
        Ok(())
    };
    app.store.transact(announced).await
}

/// Takes a `close`. What was handed to that incarnation stays its own.
pub(crate) async fn close<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    session: &Session,
    doc: DocId,
    incarnation: Incarnation,
) -> Result<(), StoreError> {
    let here = boot.hub.here(session.tab_id, &doc).and_then(|h| h.open);
    if here.is_some_and(|(open, _)| open == incarnation) {
        boot.hub.set_open(session.tab_id, &session.conn, &doc, None);
    }
    let (boot, session) = (boot.clone(), session.clone());
    let closed = move |tx: &dyn Tx| {
        if is_current(tx, &boot, &session)? {
            tx.closed(session.tab_id, &doc, Some(incarnation))?;
            tx.only_these(session.tab_id)?;
        }
        Ok(())
    };
    app.store.transact(closed).await
}

/// The socket is gone. Where this does not reach the database, the next election finds it out.
pub(crate) async fn gone<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, session: &Session) {
    boot.hub.disconnect(session.tab_id, &session.conn);
    let Session { tab_id, conn, .. } = session.clone();
    if let Err(error) = app.store.transact(move |tx| tx.disconnected(tab_id, &conn)).await {
        tracing::debug!(%error, conn = %session.conn, "a connection's end could not be recorded");
    }
}

/// Takes what a tab says about a patch.
pub(crate) async fn report<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    session: &Session,
    frame: TabFrame,
) -> Result<(), StoreError> {
    let patch_id = match &frame {
        TabFrame::PatchAck(ack) => ack.patch_id,
        TabFrame::PatchRefuse { patch_id, .. }
        | TabFrame::PatchUnknown { patch_id, .. }
        | TabFrame::PatchState { patch_id, .. } => *patch_id,
        _ => return Ok(()),
    };
    let (app2, boot, session) = (app.clone(), boot.clone(), session.clone());
    let heard = move |tx: &dyn Tx| {
        let Some(row) = own_row(tx, &boot, &session, patch_id)? else { return Ok(()) };
        let Some(doc) = row.plan.as_ref().map(|p| &p.recipient.doc) else { return Ok(()) };
        let here = here(tx, &boot, session.tab_id, doc)?.filter(|h| h.conn == session.conn);
        let speaker = Speaker {
            conn: &session.conn,
            journal_id: session.journal_id,
            open: here.and_then(|h| h.open),
            now: tx.now(),
        };
        let mut say = Say::default();
        say.settle(tx, &row, judged(&row, &frame, &speaker))?;
        say.after_commit(tx, &app2, &boot, session.tab_id, Some(&session.conn))?;
        Ok(())
    };
    app.store.transact(heard).await
}

fn judged(row: &KeyRow, frame: &TabFrame, speaker: &Speaker<'_>) -> Settled {
    match frame {
        TabFrame::PatchAck(_) => acknowledged(row, speaker),
        TabFrame::PatchRefuse { delivery, reason, detail, patch_id } => {
            if *reason == Reason::PatchIdReused {
                tracing::error!(%patch_id, "the tab knows this id with another body");
            }
            refused(row, Some(*delivery), *reason, detail.as_deref(), speaker)
        }
        TabFrame::PatchUnknown { delivery, .. } => unknown(row, Some(*delivery), speaker),
        TabFrame::PatchState { delivery, state, reason, .. } => match state {
            ReportedState::Applied => acknowledged(row, speaker),
            ReportedState::Refused => {
                refused(row, Some(*delivery), reason.unwrap_or(Reason::HandlerRefused), None, speaker)
            }
            ReportedState::Unknown => unknown(row, Some(*delivery), speaker),
            ReportedState::NotSeen => not_seen(row, *delivery, speaker),
            // Exactly one answer follows on this connection (J5).
            ReportedState::Applying => Settled::Ignore("under way"),
        },
        _ => Settled::Ignore("not about a patch"),
    }
}

/// R5: what is said about a patch counts from its recipient's tab, on that tab's current connection, alone.
fn own_row(tx: &dyn Tx, boot: &Arc<Boot>, session: &Session, patch_id: PatchId) -> Result<Option<KeyRow>, StoreError> {
    if !is_current(tx, boot, session)? {
        return Ok(None);
    }
    let row = tx.key_of_patch(patch_id)?;
    let own = row.filter(|row| is_recipient(row, session));
    if own.is_none() {
        tracing::warn!(%patch_id, conn = %session.conn, "a frame about a patch that is not this tab's");
    }
    Ok(own)
}

fn is_recipient(row: &KeyRow, session: &Session) -> bool {
    let recipient = row.plan.as_ref().map(|p| p.recipient.tab_id);
    row.id.principal == session.principal && recipient == Some(session.tab_id)
}

/// Whether this is the tab's current connection. One that was replaced is closed: the hello that replaced it may have
/// been committed late, by a process whose socket is dead, and then this is the only one left to say hello anew.
fn is_current(tx: &dyn Tx, boot: &Arc<Boot>, session: &Session) -> Result<bool, StoreError> {
    let current = tx.tab(session.tab_id)?.is_some_and(|owner| owner.conn == session.conn);
    if !current {
        tracing::warn!(conn = %session.conn, "a frame on a connection that was replaced");
        let (boot, Session { conn, tab_id, .. }) = (boot.clone(), session.clone());
        tx.after_commit(Box::new(move || boot.hub.replaced(tab_id, &conn)));
    }
    Ok(current)
}

/// R5, for a frame that reads no rows of its own: on a connection that was replaced it closes it.
pub(crate) async fn check_current<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    session: &Session,
    shown: Option<bool>,
) -> Result<(), StoreError> {
    let (boot, session) = (boot.clone(), session.clone());
    let check = move |tx: &dyn Tx| match shown {
        Some(visible) if is_current(tx, &boot, &session)? => tx.shown(session.tab_id, &session.conn, visible),
        Some(_) => Ok(()),
        None => is_current(tx, &boot, &session).map(|_| ()),
    };
    app.store.transact(check).await
}

/// Announces a document: everything older of this tab is fenced for it, and its open patches are settled. Returns the
/// stored version, or nothing where this incarnation was replaced already.
fn announce(tx: &dyn Tx, say: &mut Say, session: &Session, open: &OpenDoc) -> Result<Option<u64>, StoreError> {
    let place = place_of(tx, session, open)?;
    if is_over(place) {
        tracing::warn!(conn = %session.conn, doc = %open.doc, ?place, "an incarnation that was replaced is announced");
        return Ok(None);
    }
    let announced = announced(session, open);
    let seq = tx.document(&session.principal.workspace, &open.doc)?.map_or(0, |d| d.seq);
    let mut rows = tx.open_keys(session.tab_id, &open.doc)?;
    if place != Place::Newest {
        let keeps_out = (!rows.is_empty()).then_some(seq);
        tx.announce(session.tab_id, &open.doc, announced, keeps_out)?;
    }
    let speaker = Speaker {
        conn: &session.conn,
        journal_id: session.journal_id,
        open: Some((open.incarnation, open.homed)),
        now: tx.now(),
    };
    let listed: HashMap<PatchId, &UnconfirmedEntry> = open.unconfirmed.iter().map(|e| (e.patch_id, e)).collect();
    // What is settled here already is told again to a tab that has not heard of it (R4).
    let known: HashSet<_> = rows.iter().filter_map(|row| row.plan.as_ref().map(|p| p.patch_id)).collect();
    let others: Vec<_> = listed.keys().filter(|patch_id| !known.contains(patch_id)).copied().collect();
    rows.extend(
        tx.keys_of_patches(&others)?
            .into_iter()
            .filter(|row| is_recipient(row, session) && row.plan.as_ref().is_some_and(|p| p.recipient.doc == open.doc)),
    );
    for row in &rows {
        let entry = row.plan.as_ref().and_then(|p| listed.get(&p.patch_id).copied());
        say.settle(tx, row, resume(row, entry, &speaker))?;
    }
    Ok(Some(seq))
}

/// Nothing of such content is taken any more: its tab is told so, and loads it anew.
const fn is_over(place: Place) -> bool {
    matches!(place, Place::Earlier | Place::Settled)
}

const fn announced(session: &Session, open: &OpenDoc) -> Announced {
    Announced { epoch: session.epoch, generation: open.generation, incarnation: open.incarnation }
}

/// Where an announcement stands beside the newest one. Without an order the one that comes later is the later one.
fn place_of(tx: &dyn Tx, session: &Session, open: &OpenDoc) -> Result<Place, StoreError> {
    let newest = tx.newest(session.tab_id, &open.doc)?;
    let replaced = tx.superseded(session.tab_id, &open.doc, open.incarnation)?;
    Ok(place(newest, announced(session, open), replaced))
}

/// T5: the dead tab's epoch is raised, and what its adopter may say about its patches is taken.
fn adopt(tx: &dyn Tx, boot: &Arc<Boot>, say: &mut Say, session: &Session, dead: &Adopted) -> Result<(), StoreError> {
    let Some(mut owner) = tx.tab(dead.tab_id)? else { return Ok(()) };
    if owner.principal != session.principal || dead.epoch <= owner.epoch || dead.tab_id == session.tab_id {
        tracing::warn!(conn = %session.conn, tab = %dead.tab_id, "an adoption that is not allowed");
        return Ok(());
    }
    owner.epoch = dead.epoch;
    // Its sockets no longer count, whoever holds them.
    tx.disconnected(dead.tab_id, &owner.conn)?;
    owner.conn.clone_from(&session.conn);
    tx.put_tab(dead.tab_id, &owner)?;
    tx.tell_others(&Word::Came(dead.tab_id))?;
    let (hub, tab_id) = (boot.clone(), dead.tab_id);
    tx.after_commit(Box::new(move || hub.hub.fence(tab_id)));
    let speaker = Speaker { conn: &session.conn, journal_id: session.journal_id, open: None, now: tx.now() };
    for entry in &dead.unconfirmed {
        let row = tx.key_of_patch(entry.patch_id)?.filter(|row| {
            let recipient = row.plan.as_ref().map(|p| p.recipient.tab_id);
            row.id.principal == session.principal && recipient == Some(dead.tab_id)
        });
        if let Some(row) = row {
            say.settle(tx, &row, adopted(&row, entry, &speaker))?;
        }
    }
    Ok(())
}
