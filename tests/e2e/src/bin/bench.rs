//! `cargo xtask bench`: what the journal adds between a patch and its acknowledgement, beside a hand-written IndexedDB
//! put in the same run, and how many records a second it takes. Nothing here passes or fails.

use std::collections::BTreeMap;

use patchkeep_e2e::frames::Patch;
use patchkeep_e2e::page::{TestPage, with_browser};
use patchkeep_e2e::raw::{Hello, RawServer, RawSocket};
use patchkeep_e2e::site::{Site, repository};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_tungstenite::tungstenite::Message;

/// Rounds in which both are measured in turn, so that what else the machine does falls on both.
const ROUNDS: u32 = 12;
/// Measurements of each in a round.
const PER_ROUND: u32 = 50;
/// Patches of a burst.
const BURST: u32 = 2_000;
/// Documents that a burst is spread over.
const SPREAD: u32 = 8;

#[tokio::main]
async fn main() {
    println!("{:<36}{:>9}{:>9}{:>9}", "ms", "p50", "p95", "p99");
    for durability in ["strict", "relaxed", "memory"] {
        with_browser(async |driver| {
            let site = Site::start_isolated().await;
            let page = TestPage::load(driver, &site).await;
            latency(&page, durability).await;
            page.check().await;
        })
        .await;
    }
    println!("\n{:<36}{:>12}{:>12}{:>12}", "records a second", "one by one", "pipelined", "8 documents");
    for durability in ["strict", "relaxed", "memory"] {
        with_browser(async |driver| {
            let site = Site::start_isolated().await;
            let page = TestPage::load(driver, &site).await;
            throughput(&page, durability).await;
            page.check().await;
        })
        .await;
    }
    sizes().await;
}

/// What a page that uses the package loads.
async fn sizes() {
    let root = repository();
    let script = root.join("tests/e2e/sizes.mjs").canonicalize().expect("the script is in the repository");
    let output = Command::new("node").arg(script).current_dir(root.join("www")).output().await.expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let parts: BTreeMap<String, [u64; 3]> = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    println!("\n{:<36}{:>9}{:>9}{:>9}", "bytes", "raw", "gzip", "brotli");
    let mut all = [0; 3];
    for (name, sizes) in parts.iter().rev() {
        println!("{name:<36}{:>9}{:>9}{:>9}", sizes[0], sizes[1], sizes[2]);
        all.iter_mut().zip(sizes).for_each(|(sum, size)| *sum += size);
    }
    println!("{:<36}{:>9}{:>9}{:>9}", "all", all[0], all[1], all[2]);
}

async fn latency(page: &TestPage, durability: &str) {
    let (mut server, docs) = (RawServer::start().await, ["d1".to_owned()]);
    let (mut socket, hello) = session(page, &mut server, durability, &docs).await;
    let (mut by_hand, mut fenced) = (Vec::new(), Vec::new());
    if durability != "memory" {
        puts(page, durability, true).await;
    }
    one_by_one(&mut socket, &hello, 1..PER_ROUND).await;
    clear(page).await;
    for round in 1..=ROUNDS {
        if durability != "memory" {
            by_hand.extend(puts(page, durability, false).await);
            fenced.extend(puts(page, durability, true).await);
        }
        for n in round * PER_ROUND..(round + 1) * PER_ROUND {
            rest(page).await;
            one_by_one(&mut socket, &hello, n..n + 1).await;
        }
    }
    let ours: Vec<f64> = spans(page).await.values().map(|(from, to)| to - from).collect();
    let ours = Percentiles::of(ours);
    ours.print(&format!("{durability}: patch in → ack out"));
    if durability == "memory" {
        return;
    }
    let by_hand = Percentiles::of(by_hand);
    Percentiles::of(fenced).print(&format!("{durability}: one read and put, by hand"));
    by_hand.print(&format!("{durability}: one put, by hand"));
    let ratio = |n: usize| format!("{:.2}×", ours.0[n] / by_hand.0[n]);
    println!("{:<36}{:>9}{:>9}{:>9}", "  ratio", ratio(0), ratio(1), ratio(2));
}

async fn throughput(page: &TestPage, durability: &str) {
    let mut server = RawServer::start().await;
    let docs: Vec<String> = (0..SPREAD).map(|n| format!("d{n}")).collect();
    let (mut socket, hello) = session(page, &mut server, durability, &docs).await;
    let mut rates = Vec::new();
    one_by_one(&mut socket, &hello, 1..BURST / 4).await;
    rates.push(rate(page).await);
    for (begin, spread) in [(BURST, 1), (2 * BURST, SPREAD)] {
        clear(page).await;
        burst(&mut socket, &hello, begin..begin + BURST, spread).await;
        rates.push(rate(page).await);
    }
    let cells: Vec<String> = rates.iter().map(|rate| format!("{rate:>12.0}")).collect();
    println!("{:<36}{}", durability, cells.concat());
}

async fn session(page: &TestPage, server: &mut RawServer, durability: &str, docs: &[String]) -> (RawSocket, Hello) {
    page.start(json!({ "socket": server.url(), "durability": durability, "principal": format!("bench/{durability}") }))
        .await;
    for doc in docs {
        page.open(doc, json!({})).await;
        // The effect itself is nobody's cost but the host's.
        page.handle(doc, "").await;
    }
    let welcomed = server.welcome().await;
    page.live().await;
    assert_eq!(page.eval("pk.session.durability").await, durability, "the browser gives what was asked for");
    welcomed
}

/// Each patch is sent when the one before was acknowledged and confirmed.
async fn one_by_one(socket: &mut RawSocket, hello: &Hello, numbers: std::ops::Range<u32>) {
    let doc = hello.0["docs"][0]["doc"].as_str().expect("a document is open");
    for n in numbers {
        socket.send(hello.frame(&Patch::append(n, doc, "x"))).await;
        let ack = socket.skip_to("patch_ack").await;
        let confirmed =
            json!({ "type": "patch_confirmed", "patches": [{ "patch_id": ack["patch_id"], "as": "acked" }] });
        socket.send(confirmed).await;
    }
}

/// All patches are sent at once.
async fn burst(socket: &mut RawSocket, hello: &Hello, numbers: std::ops::Range<u32>, spread: u32) {
    let patches = numbers.clone().map(|n| Patch::append(n, &format!("d{}", n % spread), "x"));
    let frames = patches.map(|patch| Message::text(hello.frame(&patch).to_string())).collect();
    socket.send_all(frames).await;
    for _ in numbers {
        socket.skip_to("patch_ack").await;
    }
}

async fn clear(page: &TestPage) {
    page.run("pkFrames.length = 0", json!({})).await;
}

/// What the patch before set off is over: a put by hand has the store to itself as well.
async fn rest(page: &TestPage) {
    page.run("await new Promise((done) => setTimeout(done, 5))", json!({})).await;
}

/// Hand-written puts of a record's size, each in a transaction of its own, in ms. `fenced`: one that reads an epoch as
/// well, which J4 asks for.
async fn puts(page: &TestPage, durability: &str, fenced: bool) -> Vec<f64> {
    let script = "
        const { durability, count, fenced } = args;
        globalThis.pkBench ??= await new Promise((done, failed) => {
          const request = indexedDB.open('bench', 1);
          request.onupgradeneeded = () => ['tabs', 'records'].forEach((name) => request.result.createObjectStore(name));
          request.onsuccess = () => done(request.result);
          request.onerror = () => failed(request.error);
        });
        const times = [];
        for (let i = 0; i < count; i += 1) {
          await new Promise((done) => setTimeout(done, 5));
          const value = `${i} ${'r'.repeat(300)}`;
          const begun = performance.now();
          await new Promise((done, failed) => {
            const transaction = pkBench.transaction(fenced ? ['tabs', 'records'] : 'records', 'readwrite', { durability });
            if (fenced) transaction.objectStore('tabs').get('epoch').onsuccess = () => undefined;
            transaction.objectStore('records').put(value, `${Math.random()}`);
            transaction.oncomplete = done;
            transaction.onabort = failed;
          });
          times.push(performance.now() - begun);
        }
        return times;";
    let times = page.run(script, json!({ "durability": durability, "count": PER_ROUND, "fenced": fenced })).await;
    times.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// When each patch came in and its acknowledgement went out, by the page's clock, in ms.
async fn spans(page: &TestPage) -> BTreeMap<String, (f64, f64)> {
    let script = "
        const spans = {};
        for (const { at, way, data } of pkFrames) {
          const frame = JSON.parse(data);
          if (way === '<' && frame.type === 'patch') spans[frame.patch_id] = [at];
          if (way === '>' && frame.type === 'patch_ack') spans[frame.patch_id]?.push(at);
        }
        return spans;";
    let spans = page.run(script, json!({})).await;
    let both = |span: &Value| Some((span[0].as_f64()?, span[1].as_f64()?));
    spans.as_object().into_iter().flatten().filter_map(|(id, span)| Some((id.clone(), both(span)?))).collect()
}

/// Acknowledgements a second, from the first patch to the last acknowledgement.
async fn rate(page: &TestPage) -> f64 {
    let spans = spans(page).await;
    let begun = spans.values().map(|(from, _)| *from).fold(f64::INFINITY, f64::min);
    let ended = spans.values().map(|(_, to)| *to).fold(0.0, f64::max);
    let count = u32::try_from(spans.len()).expect("a burst is not that large");
    f64::from(count) * 1000.0 / (ended - begun)
}

/// p50, p95, p99.
struct Percentiles([f64; 3]);

impl Percentiles {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |percent: usize| values[(values.len() * percent / 100).min(values.len() - 1)];
        Self([at(50), at(95), at(99)])
    }

    fn print(&self, name: &str) {
        let [p50, p95, p99] = self.0;
        println!("{name:<36}{p50:>9.2}{p95:>9.2}{p99:>9.2}");
    }
}
