//! Random crash points: the page is killed between any two of its steps from the patch's arrival to the save's
//! confirmation, and loaded again. In the end the edit is in the stored document exactly as often as the server says.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cdp::Chromium;
use crate::engine::Engine;
use crate::raw::RawServer;
use crate::reference::Reference;
use crate::site::Site;
use crate::wait::{PATIENCE, until, within};

/// What came of all rounds.
#[derive(Debug, Default)]
pub struct Tally {
    /// How often a page was killed.
    pub crashes: u32,
    /// Rounds that were over before the step came.
    pub unharmed: u32,
    /// How often each outcome was told in the end.
    pub outcomes: BTreeMap<String, u32>,
    /// Crashes by step.
    pub by_step: BTreeMap<u32, u32>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crashes, {} rounds without; told in the end: {:?}; crashes by step: {:?}",
            self.crashes, self.unharmed, self.outcomes, self.by_step
        )
    }
}

/// Whether a round is over in the page; then, in the same task, no step is its last any more.
const OVER: &str =
    "pk.session.records().every(({ state, flushed, confirmed }) => (flushed || state === 'refused') && confirmed)
    && pk.docs.get('notes/welcome').saving === 0 && pkSteps.disarm()";
/// What keeps a round from being over.
const STANDING: &str = "JSON.stringify({ open: pk.session.records().filter(({ state, flushed, confirmed }) => !((flushed || state === 'refused') && confirmed)),
    saving: pk.docs.get('notes/welcome').saving, saves: pk.saves?.slice(-3), connection: pk.session.connection })";

/// The highest step that is drawn: a round from patch to confirmation has about as many.
const STEPS: u64 = 22;
const DOC: &str = "notes/welcome";

/// Kills a page that many times, at steps drawn from this seed.
///
/// # Panics
/// Where an edit is in the stored document more or less often than the server says; the message names round and step.
pub async fn run(points: u32, seed: u64) -> Tally {
    let chromium = Engine::Chromium.programs().expect("Chromium is here").remove(1);
    let site = Site::start().await;
    let reference = Reference::start(&[(DOC, "begin\n")], |config| {
        config.origins = vec![site.origin()];
        config.patch_timeout_ms = 2_000;
    })
    .await;
    let mut executioner = RawServer::start().await;
    let mut browser = Chromium::start(&chromium).await;
    browser.goto(&format!("{}/?steps", site.origin())).await;
    open(&mut browser, &reference).await;
    let mut draw = Draw(seed);
    let mut tally = Tally::default();
    let mut round = 0;
    while tally.crashes < points {
        round += 1;
        let step = u32::try_from(draw.below(STEPS)).expect("a step is a small number") + 1;
        let arm = format!("pkSteps.arm({step}, {:?})", executioner.url().replace("ws:", "http:"));
        browser.eval(&arm).await;
        let key = format!("round-{round}");
        let token = format!("<{round}>");
        let edit = json!({ "kind": "text.append", "text": token });
        let first = reference.patch(DOC, &key, 1, &edit);
        tokio::pin!(first);
        // Either the page gets to that step, or the round ends before.
        let mut answered = false;
        let began = Instant::now();
        let died = loop {
            if began.elapsed() > PATIENCE {
                panic!("round {round}, step {step}, seed {seed} does not end: {}", browser.eval(STANDING).await);
            }
            tokio::select! {
                biased;
                knock = executioner.knock_whenever() => break Some(knock),
                _answer = &mut first, if !answered => answered = true,
                over = browser.eval(OVER), if answered => {
                    if over == true {
                        break None;
                    }
                }
            }
        };
        if let Some(knock) = died {
            browser.crash_and_reload().await;
            // Answered before, the page would have gone on until it died.
            drop(knock);
            open(&mut browser, &reference).await;
            tally.crashes += 1;
            *tally.by_step.entry(step).or_default() += 1;
        } else {
            tally.unharmed += 1;
        }
        if !answered {
            let _answer = within("the first answer", first).await;
        }
        let told = settle(&reference, &key, &edit).await;
        let times = reference.read(DOC).await.0.matches(&token).count();
        let right = match told.as_str() {
            "done" => times == 1,
            "refused" | "lost" => times == 0,
            // Nobody can tell whether; but never twice (P1).
            _ => times <= 1,
        };
        assert!(right, "round {round}, step {step}, seed {seed}: told {told}, and {times} times in the stored text");
        *tally.outcomes.entry(told).or_default() += 1;
        if round % 50 == 0 {
            eprintln!("{round} rounds, {tally}");
        }
    }
    browser.quit().await;
    reference.server.stop().await;
    tally
}

/// Opens session and document in a page that was just loaded: a text that saves itself after each patch.
async fn open(browser: &mut Chromium, reference: &Reference) {
    browser.until("globalThis.pk !== undefined && globalThis.pkSteps !== undefined").await;
    let options = reference.options();
    let begin = format!(
        "(async () => {{
           await pk.start({options});
           const answer = await fetch('{api}/docs/{DOC}', {{ headers: {{ authorization: 'Bearer {token}' }} }});
           const {{ text, seq }} = await answer.json();
           await pk.open('{DOC}', {{ text, baseSeq: seq, homed: 'server' }});
           const doc = pk.docs.get('{DOC}');
           doc.saving = 0;
           const save = async () => {{
             doc.saving += 1;
             const outcome = await pk.save('{DOC}').catch((error) => ({{ status: String(error) }}));
             doc.saving -= 1;
             (pk.saves ??= []).push(outcome);
           }};
           pk.session.addEventListener('recordchange', ({{ detail }}) => {{
             if (detail.state === 'applied' && !detail.flushed && detail.current && !doc.seen?.has(detail.patchId)) {{
               (doc.seen ??= new Set()).add(detail.patchId);
               queueMicrotask(save);
             }}
           }});
           return true;
         }})()",
        api = reference.api(),
        token = crate::reference::TOKEN,
    );
    assert_eq!(browser.eval(&begin).await, true, "the page opens its document");
    browser.until(&format!("pk.eventsOf('opened').some(({{ doc }}) => doc === '{DOC}')")).await;
}

/// Asks, as callers do, under the same key, until the server has said its last word.
async fn settle(reference: &Reference, key: &str, edit: &Value) -> String {
    let mut attempt = 1;
    until("the server's last word", async || {
        attempt += 1;
        let (status, body) = reference.patch(DOC, key, attempt, edit).await?;
        let code = body["error"]["code"].as_str().unwrap_or_default();
        match (status, code) {
            (200, _) if body["applied_pending_flush"] == true => None,
            (200, _) => Some("done".to_owned()),
            (409, "idempotency_in_flight") => None,
            (409, "patch_outcome_unknown") if attempt < 20 => None,
            (409, "patch_outcome_unknown") => Some("unknown".into()),
            (409, "patch_lost") => Some("lost".into()),
            (400..=499, _) => Some("refused".into()),
            _ => None,
        }
    })
    .await
}

/// A small generator: the same seed, the same steps.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
