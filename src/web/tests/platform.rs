//! Clocks, randomness, timers, addresses.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use js_sys::Function;
use patchkeep_core::ids::DocId;
use patchkeep_core::session::SaveAnswer;
use patchkeep_web::oneshot::oneshot;
use patchkeep_web::timers::Timer;
use patchkeep_web::{clock, fetch, random};
use wasm_bindgen::JsValue;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::support::*;

#[wasm_bindgen_test]
fn random_bits_are_not_handed_out_twice() {
    let drawn: BTreeSet<u128> = (0..1_000).map(|_| random::bits()).collect();
    assert_eq!(drawn.len(), 1_000);
}

#[wasm_bindgen_test]
fn b07_randomness_needs_no_secure_context() {
    let without = Replaced::with("crypto", &bare_crypto());
    let (one, other) = (random::uuid(), random::uuid());
    drop(without);
    assert_ne!(one, other);
}

/// `crypto` as an insecure context has it.
fn bare_crypto() -> JsValue {
    js_sys::eval("({ getRandomValues: crypto.getRandomValues.bind(crypto) })").expect("the script runs")
}

#[wasm_bindgen_test]
async fn a_timer_calls_at_its_time_and_once() {
    let (sender, woken) = oneshot();
    let calls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&calls);
    let timer = Timer::new(move || {
        counted.set(counted.get() + 1);
        sender.send(());
    });
    let due = clock::now().mono_ms + 20;
    timer.set(Some(due + 10_000));
    timer.set(Some(due));
    timer.set(Some(due));
    woken.await;
    assert!(clock::now().mono_ms + 1 >= due);
    assert_eq!(calls.get(), 1);
}

#[wasm_bindgen_test]
async fn a_timer_that_is_set_to_nothing_or_dropped_does_not_call() {
    let is_called = Rc::new(Cell::new(false));
    let timer = |called: &Rc<Cell<bool>>| {
        let called = Rc::clone(called);
        Timer::new(move || called.set(true))
    };
    let (unset, dropped, far) = (timer(&is_called), timer(&is_called), timer(&is_called));
    let soon = clock::now().mono_ms + 1;
    unset.set(Some(soon));
    unset.set(None);
    dropped.set(Some(soon));
    drop(dropped);
    // An engine that took this delay as it is would call at once (K6).
    far.set(Some(soon + (1 << 31)));
    let (sender, later) = oneshot();
    let after = Timer::new(move || sender.send(()));
    after.set(Some(soon + 30));
    later.await;
    assert!(!is_called.get());
}

#[wasm_bindgen_test]
fn a_document_has_one_address_or_none() {
    let url = |doc: &str| fetch::document_url("https://host/api/", &DocId::new(doc).unwrap());
    assert_eq!(url("notes/welcome").as_deref(), Some("https://host/api/docs/notes/welcome"));
    assert_eq!(url("a b/ü?#%").as_deref(), Some("https://host/api/docs/a%20b/%C3%BC%3F%23%25"));
    for doc in ["..", "a/../b", "./a", "a/."] {
        assert_eq!(url(doc), None, "{doc}");
    }
}

/// Sends a save to a `fetch` with this body.
async fn save_with(fetch_body: &str) -> SaveAnswer {
    save_as("ws/user", fetch_body).await
}

async fn save_as(principal: &str, fetch_body: &str) -> SaveAnswer {
    let fetch = Function::new_with_args("url, init", fetch_body);
    let replaced = Replaced::with("fetch", &fetch);
    let headers = web_sys::Headers::new().unwrap();
    headers.set("authorization", "Bearer x").unwrap();
    let answer = fetch::put("https://host/docs/d", principal, &headers, "{}").await;
    drop(replaced);
    answer
}

fn answered(status: u16, content_type: Option<&str>, body: &str) -> SaveAnswer {
    SaveAnswer::Answered { status, content_type: content_type.map(Into::into), body: body.into() }
}

#[wasm_bindgen_test]
async fn w01_a_save_is_one_put_that_follows_no_redirect() {
    let echo = "const { method, headers, body, redirect } = init;
        return new Response([url, method, redirect, body, ...headers].join(' '), { status: 201 })";
    let expected = "https://host/docs/d PUT manual {} authorization,Bearer x content-type,application/json \
                    patchkeep-principal,ws/user";
    assert_eq!(save_with(echo).await, answered(201, TEXT, expected));
}

#[wasm_bindgen_test]
async fn t06_a_save_names_its_principal_whatever_its_characters() {
    let named = "return new Response(new Headers(init.headers).get('patchkeep-principal'))";
    for (principal, expected) in [
        ("ws_12/u_7", "ws_12/u_7"),
        ("Team A/zo\u{eb} 50%", "Team%20A/zo%C3%AB%2050%25"),
        ("ws/\u{1f600}\n", "ws/%F0%9F%98%80%0A"),
    ] {
        assert_eq!(save_as(principal, named).await, answered(200, TEXT, expected));
    }
}

/// What a `Response` of a string is by itself.
const TEXT: Option<&str> = Some("text/plain;charset=UTF-8");

#[wasm_bindgen_test]
async fn w03_d10_a_conflict_is_never_cut() {
    let conflict = "const id = (i) => `0190a000-0000-7000-8000-${i.toString(16).padStart(12, '0')}`;
        const ids = (from) => Array.from({ length: 10_000 }, (_, i) => id(from + i));
        const details = { seq: 7, patch_ids: ids(0), in_doubt: ids(10_000) };
        return Response.json({ error: { code: 'save_conflict', details } }, { status: 409 })";
    let SaveAnswer::Answered { status: 409, body, .. } = save_with(conflict).await else { panic!("no answer") };
    assert!(body.len() > 700_000 && body.ends_with("}}}"), "{}", body.len());
}

#[wasm_bindgen_test]
async fn k12_an_answer_is_whole_or_bounded_or_none() {
    assert_eq!(save_with("return new Response(null, { status: 204 })").await, answered(204, None, ""));
    assert_eq!(save_with("return new Response('é\\n😀', { status: 409 })").await, answered(409, TEXT, "é\n😀"));
    // What `redirect: "manual"` gives for a redirect.
    assert_eq!(save_with("return Response.error()").await, answered(302, None, ""));
    let long = save_with("return new Response('x'.repeat(2 ** 21))").await;
    let SaveAnswer::Answered { status: 200, body, .. } = long else {
        panic!("a long answer is cut, not refused");
    };
    assert_eq!(body.len(), 1 << 20);
    for failing in [
        "throw new TypeError('offline')",
        "return Promise.reject(new TypeError('offline'))",
        "return new Response(new ReadableStream({ pull(c) { c.error(new TypeError('offline')); } }))",
    ] {
        assert_eq!(save_with(failing).await, SaveAnswer::Failed { detail: "offline".into() }, "{failing}");
    }
}
