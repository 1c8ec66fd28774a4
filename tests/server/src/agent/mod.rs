//! `patchkeep-agent`: a caller that writes with an op key (§8), from the command line.
//!
//! A key is minted once per invocation. Before the first attempt the server is asked what it can do; only where it
//! lists `idempotency_keys` is an ambiguous answer followed by a retry, exactly one, with the same key (K4). What the
//! answers mean is the core's reading of K5, what is done next the pure `policy` module.

mod args;
mod client;
mod policy;
mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use patchkeep_core::outbox::{self, Outcome, Standing};

pub use args::{Cli, Command, Common, Patch, Verdict, Where};
pub use client::{Capabilities, Client, Reply, Request};
pub use policy::{End, Next, Progress, next};

use report::Report;

/// Runs one invocation.
pub async fn run(cli: Cli) -> ExitCode {
    let ended = match cli.command {
        Command::Patch(patch) => run_patch(&patch).await,
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
    let client = Client::new(common)?;
    let reply = client.read(doc).await?;
    let Some(text) = reply.text().filter(|_| reply.status == 200) else {
        return Err(reply.failure());
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
    let reply = Client::new(common)?.ask(key).await;
    let standing = Standing { keys_listed: true, earlier_ambiguous: true, ..Standing::default() };
    let reading = outbox::read(&reply.answer(), standing);
    let end = match (reading.outcome, reply.never_sent) {
        (_, true) => End::Other,
        (Outcome::Pending, _) if reply.status == 401 => End::Other,
        (outcome, _) => policy::end_of(outcome),
    };
    Report::new(common.json).asked(end, &reading, &reply, key);
    Ok(end)
}

async fn run_settle(key: &str, verdict: Verdict, common: &Common) -> Result<End, String> {
    let verdict = match verdict {
        Verdict::Applied => crate::decide::Verdict::Applied,
        Verdict::NotApplied => crate::decide::Verdict::NotApplied,
    };
    let reply = Client::new(common)?.settle(key, verdict).await;
    let end = policy::settled(&reply);
    Report::new(common.json).settled(end, &reply, key);
    Ok(end)
}

async fn run_patch(patch: &Patch) -> Result<End, String> {
    let client = Client::new(&patch.common)?;
    let report = Report::new(patch.common.json);
    let begun = Instant::now();
    let key = patch.key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    // K4: before the first attempt; absent, failed or older counts as not listed.
    let capabilities = client.capabilities().await.unwrap_or_default();
    let first_at = capabilities.now_ms.unwrap_or_else(local_now_ms);
    let body = patch.body()?;
    let mut progress = Progress { explicit_key: patch.key.is_some(), number: 1, ..Progress::default() };
    let mut asking = false;
    loop {
        let request =
            Request { doc: &patch.doc, body: &body, key: &key, number: progress.number, first_at, ask: asking };
        let sent = client.patch(&request).await;
        let standing = Standing {
            keys_listed: capabilities.idempotency_keys,
            earlier_ambiguous: progress.ambiguous,
            expects_other_type: false,
            server_now_ms: None,
        };
        let reading = outbox::read(&sent.answer(), standing);
        progress.elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        progress.wait_ms = patch.wait.saturating_mul(1000);
        report.heard(&reading, &sent, &key, &progress, asking);
        match next(&reading, &sent, asking, &mut progress) {
            Next::Send { wait_ms } => {
                asking = false;
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
            Next::Ask { wait_ms } => {
                asking = true;
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
            Next::Stop(end) => {
                report.ended(end, &reading, &sent, &key);
                return Ok(end);
            }
        }
    }
}

fn local_now_ms() -> u64 {
    (crate::store::system_clock())()
}
