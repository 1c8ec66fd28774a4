//! `cargo xtask demo --check`: plays the demo, says each step, leaves a picture, and fails if any text is there twice
//! or missing.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use futures_util::FutureExt;
use patchkeep_e2e::page::with_browser;
use patchkeep_e2e::site::repository;
use patchkeep_e2e::story::Demo;
use serde_json::json;

const DOC: &str = "notes/welcome";
const LOST: &str = "This line's acknowledgement was lost.";
const MEANWHILE: &str = "This line came while nobody had the document open.";
const CLOSED: &str = "This line's tab was closed.";

#[tokio::main]
async fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| eprintln!("demo --check: {}", panic.payload_as_str().unwrap_or("failed"))));
    // A panic is a failed step; the browser is ended by then.
    let played =
        AssertUnwindSafe(with_browser(async |driver| play(Demo::start(driver).await).await)).catch_unwind().await;
    if played.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn play(demo: Demo) {
    say("the page is open and connected");

    let told = demo.agent(&["patch", DOC, "--find", "colour", "--replace", "color"]).await;
    assert!(told.code == 0 && told.says("applied · pending save") && told.says("done · seq "), "{told:?}");
    say(&format!("colour → color: {}", told.lines.join(" → ")));
    assert_once(&demo, "color").await;

    demo.page().press_switch("Lose the next acknowledgement").await;
    let told = demo.agent(&["patch", DOC, "--append", &format!("\n{LOST}\n")]).await;
    assert!(told.code == 0 && told.says("(replayed)") && told.says("done · seq "), "{told:?}");
    say(&format!("acknowledgement lost: {}", told.lines.join(" → ")));
    assert_once(&demo, LOST).await;
    demo.page()
        .until("[...document.querySelectorAll('[data-cell=replayed]')].some((cell) => cell.textContent === '1×')")
        .await;
    say("the journal shows it as replayed, 1×");

    lose_the_tab(&demo).await;
    let told = demo.agent(&["patch", DOC, "--append", &format!("\n{MEANWHILE}\n")]).await;
    assert!(told.code == 0 && told.says("done · seq "), "{told:?}");
    say(&format!("tab closed, another edit goes straight into the stored document: {}", told.lines.join(" → ")));
    let told = demo.agent(&["patch", DOC, "--append", &format!("\n{CLOSED}\n"), "--key", KEY]).await;
    let shows_diff = told.says(&format!("+{MEANWHILE}"));
    assert!(told.code == 3 && told.says("patch_outcome_unknown") && shows_diff, "{told:?}");
    say("tab closed in between: exit 3, with what changed since");
    told.lines.iter().for_each(|line| println!("    {line}"));
    assert_eq!(demo.stored(DOC).await.matches(CLOSED).count(), 0, "nothing was written");

    demo.open().await;
    demo.set_faults(json!({ "lose_next_ack": 0 })).await;
    let told = demo.agent(&["patch", DOC, "--append", &format!("\n{CLOSED}\n"), "--key", KEY]).await;
    assert!(told.code == 0 && told.says("done · seq "), "{told:?}");
    say(&format!("tab reloaded, asked again with the same key: {}", told.lines.join(" → ")));
    for text in ["color", LOST, MEANWHILE, CLOSED] {
        assert_once(&demo, text).await;
    }
    say("every text is there once, in the editor and in the stored document");

    let picture = repository().join("target/demo.png");
    demo.page().picture(&picture).await;
    say("a picture is in target/demo.png");
    demo.stop().await;
}

/// An op whose acknowledgements are all lost, and whose recipient is gone before it saves.
async fn lose_the_tab(demo: &Demo) {
    // However often the agent tries until the tab is gone.
    demo.set_faults(json!({ "lose_next_ack": 1_000 })).await;
    let agent = demo.agent(&["patch", DOC, "--append", &format!("\n{CLOSED}\n"), "--key", KEY]);
    let (told, ()) = tokio::join!(agent, async {
        demo.page().until("document.querySelector('#journal tr[data-state=applied] [data-cell=flushed] [data-on=false]') !== null").await;
        demo.close_page().await;
    });
    assert_eq!(told.code, 3, "{told:?}");
}

/// Waits until all is saved; then the text is once in the editor and once in the store.
async fn assert_once(demo: &Demo, text: &str) {
    demo.page().saved().await;
    let counts = (demo.page().editor_text().await.matches(text).count(), demo.stored(DOC).await.matches(text).count());
    assert_eq!(counts, (1, 1), "{text:?} in the editor and in the store");
}

fn say(step: &str) {
    println!("✓ {step}");
}

/// The op key of the edit whose tab goes away.
const KEY: &str = "demo-check-tab-closed";
