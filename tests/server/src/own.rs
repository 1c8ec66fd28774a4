//! A write of one's own behind a key: the way a team that mounts [`crate::http::router`] gives its own routes the
//! promise of S1–S4.
//!
//! ```text
//!  claim (its own transaction) ─► work (as long as it takes; the lease is renewed) ─► write + answer (one transaction)
//! ```
//!
//! The work may wait for whatever it likes, and changes nothing that the database cannot undo. It ends in a closure
//! that writes; the answer is recorded in that same transaction, guarded by the claim token, so that the key is `done`
//! exactly where the write is committed. A claim that was taken over meanwhile rolls the write back.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method};
use patchkeep_core::digest;
use patchkeep_core::ids::Uuid;

use crate::app::App;
use crate::decide::{Answer, Attempt, KeyId, KeyRow, in_flight, refuse_claimed, store_claimed};
use crate::http::read_attempt;
use crate::principal::Principal;
use crate::service::{ASK_AGAIN_MS, Undo, claim_only, complete};
use crate::store::{Guard, Store, StoreError, Tx};

/// One attempt of a keyed write, as it arrived.
#[derive(Clone, Debug)]
pub struct KeyedRequest(Attempt);

impl KeyedRequest {
    /// Reads the key and its attempt from the headers (K2), and binds it to method, path and body (§1).
    ///
    /// # Errors
    /// What to answer: a key that is missing or not one, a header that cannot be read, a body without canonical form.
    pub fn read(
        principal: Principal,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &str,
    ) -> Result<Self, Answer> {
        let fingerprint = digest::fingerprint(method.as_str(), path, body)
            .map_err(|e| Answer::error(400, "malformed", &format!("the body has no canonical form: {e}")))?;
        read_attempt(principal, format!("{method} {path}"), fingerprint, headers).map(Self)
    }
}

/// A key that is this attempt's, until somebody takes it over.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Whose key, and which.
    pub id: KeyId,
    /// Guards everything that is written under it.
    pub token: Uuid,
    /// The attempt's number, from 1.
    pub attempt: u64,
}

/// Runs a write at most once for its key, and answers every attempt (S1–S4).
///
/// `work` is called where the key is free and is this attempt's now. It prepares, and returns what writes: a closure
/// over the transaction in which the answer is recorded. That closure runs on the store's own thread: it does not wait
/// for anything but the database. While the work goes on the lease is renewed by the database's clock, at least once a
/// second and thrice a lease; a process that stands still renews nothing, and is overtaken.
///
/// - An answer of 2xx is recorded with the write; further attempts get it again (S3).
/// - A 3xx or 4xx, from either part, undoes what was written, and is recorded as the refusal it is (S4).
/// - A 5xx or an error undoes it, records nothing and gives the key back at once: a failure is not an outcome (K5).
///
/// # Errors
/// A database that does not answer: nothing is known to have happened, and the same key may come again.
pub async fn keyed<S, Fut, W>(
    app: &Arc<App<S>>,
    request: KeyedRequest,
    work: impl FnOnce(Claimed) -> Fut + Send,
) -> Result<Answer, StoreError>
where
    S: Store,
    Fut: Future<Output = Result<W, Answer>> + Send,
    W: FnOnce(&dyn Tx) -> Result<Answer, StoreError> + Send + 'static,
{
    let KeyedRequest(attempt) = request;
    let row = match claim_only(app, attempt).await? {
        Ok(row) => row,
        Err(answer) => return Ok(answer),
    };
    let claimed = Claimed { id: row.id.clone(), token: row.claim_token, attempt: row.attempt };
    let write = match while_renewing(app, &row, work(claimed)).await? {
        Some(Ok(write)) => write,
        Some(Err(answer)) => return undone(app, row, answer).await,
        None => return Ok(in_flight(ASK_AGAIN_MS)),
    };
    let claimed = row.clone();
    let committed = app.store.transact(move |tx| {
        let answer = write(tx)?;
        if !(200..300).contains(&answer.status) {
            return Err(Undo::Refused(answer));
        }
        complete(tx, &store_claimed(&claimed, &answer, tx.now()))?;
        Ok(answer)
    });
    match committed.await {
        Ok(answer) => Ok(answer),
        Err(Undo::Refused(answer)) => undone(app, row, answer).await,
        Err(Undo::ClaimLost | Undo::Moved(_)) => Ok(in_flight(ASK_AGAIN_MS)),
        Err(Undo::Store(error)) => {
            // Whether it was committed is what the next attempt finds out; the claim is as it was left.
            tracing::error!(%error, "a write of the host's own failed");
            Err(error)
        }
    }
}

/// Nothing was written. A refusal is recorded (S4); a failure gives the key back.
async fn undone<S: Store>(app: &Arc<App<S>>, row: KeyRow, answer: Answer) -> Result<Answer, StoreError> {
    let recorded = app.store.transact(move |tx| {
        if answer.status >= 500 {
            complete(tx, &KeyRow { lease_until: tx.now(), ..row })?;
            return Ok(answer);
        }
        let refused = refuse_claimed(&row, answer, tx.now());
        complete(tx, &refused)?;
        let recorded = refused.recorded.as_ref().map(|recorded| Answer::from_record(recorded, false));
        Ok(recorded.unwrap_or_else(|| in_flight(ASK_AGAIN_MS)))
    });
    match recorded.await {
        Err(Undo::Store(error)) => Err(error),
        Err(_) => Ok(in_flight(ASK_AGAIN_MS)),
        Ok(answer) => Ok(answer),
    }
}

/// Drives the work, and renews the lease beside it in the same task: a task that stands still renews nothing. `None`
/// where the claim is another attempt's by now; the work is dropped.
async fn while_renewing<S: Store, T>(
    app: &Arc<App<S>>,
    row: &KeyRow,
    work: impl Future<Output = T> + Send,
) -> Result<Option<T>, StoreError> {
    let every = Duration::from_millis((app.config.lease_ms / 3).clamp(1, RENEW_AT_LEAST_MS));
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(Some(done)),
            () = tokio::time::sleep(every) => {}
        }
        let (lease_ms, row) = (app.config.lease_ms, row.clone());
        let renewed = app.store.transact(move |tx| {
            let token = row.claim_token;
            let row = KeyRow { lease_until: tx.now().saturating_add(lease_ms), ..row };
            tx.update_key(&row, Guard::Claim(token))
        });
        if !renewed.await? {
            return Ok(None);
        }
    }
}

/// However long a lease is, in ms.
const RENEW_AT_LEAST_MS: u64 = 1000;
