//! The test page in a browser, and the frame every test runs in.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use serde_json::{Value, json};
use thirtyfour::WebDriver;

use crate::browser::{Browser, Setup};
use crate::raw::RawServer;
use crate::site::Site;
use crate::wait::{until, within};

/// Runs a test with a browser of its own, which is gone afterwards however the test ends.
///
/// # Panics
/// Where the test does, or where the page was left with an unhandled rejection or error.
pub async fn with_browser<T>(test: impl AsyncFnOnce(WebDriver) -> T) -> T {
    let browser = Browser::start(&Setup::new()).await;
    let driver = browser.driver();
    let outcome = AssertUnwindSafe(test(driver)).catch_unwind().await;
    browser.quit().await;
    match outcome {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs a test with the test page and a raw server; the page is checked at the end.
///
/// # Panics
/// As [`with_browser`].
pub async fn with_raw_server(test: impl AsyncFnOnce(&TestPage, &mut RawServer)) {
    with_browser(async |driver| {
        let site = Site::start().await;
        let page = TestPage::load(driver, &site).await;
        let mut server = RawServer::start().await;
        page.telling_frames(test(&page, &mut server)).await;
        page.check().await;
    })
    .await;
}

/// A page that is scripted from here.
#[derive(Clone, Debug)]
pub struct Page {
    driver: WebDriver,
}

impl Page {
    /// The page that the driver shows.
    pub const fn new(driver: WebDriver) -> Self {
        Self { driver }
    }

    /// Goes to a URL.
    pub async fn goto(&self, url: &str) {
        within("the page", self.driver.goto(url)).await.expect("the page loads");
    }

    /// Loads the page anew.
    pub async fn reload(&self) {
        within("the page", self.driver.refresh()).await.expect("the page loads again");
    }

    /// Runs the body of an asynchronous function, in which `args` are the arguments, and returns what it resolves to.
    ///
    /// # Panics
    /// Where it rejects: with the page's own words.
    pub async fn run(&self, body: &str, args: Value) -> Value {
        let outcome = self.attempt(body, args).await;
        match outcome.get("thrown") {
            Some(thrown) => panic!("the page threw {thrown} in {body}"),
            None => outcome["value"].clone(),
        }
    }

    /// The same, for what is expected to reject: returns `{value}` or `{thrown}`.
    pub async fn attempt(&self, body: &str, args: Value) -> Value {
        let script = format!(
            "const [args, done] = arguments;\
             (async () => {{ {body} }})().then(\
               (value) => done({{ value: value === undefined ? null : value }}),\
               (error) => done({{ thrown: error && error.code ? error.code + ' ' + (error.detail ?? '') : String(error && error.stack || error) }}));"
        );
        let answer = within("a script", self.driver.execute_async(script, vec![args])).await.expect("the script runs");
        answer.json().clone()
    }

    /// What an expression gives.
    pub async fn eval(&self, expression: &str) -> Value {
        self.run(&format!("return ({expression});"), json!({})).await
    }

    /// Waits until an expression is truthy, and returns what it gives.
    pub async fn until(&self, expression: &str) -> Value {
        until(expression, async || {
            let value = self.eval(expression).await;
            let truthy = !matches!(&value, Value::Null | Value::Bool(false)) && value != json!(0) && value != json!("");
            truthy.then_some(value)
        })
        .await
    }

    /// Sends a command of the browser's debugging protocol.
    pub async fn cdp(&self, command: &str, parameters: Value) -> Value {
        within(command, self.driver.cdp().send_raw(command, parameters)).await.expect("the browser obeys")
    }

    /// The driver itself.
    pub const fn driver(&self) -> &WebDriver {
        &self.driver
    }
}

/// The test page: documents that are strings, and a record of everything that happens.
#[derive(Clone, Debug)]
pub struct TestPage {
    page: Page,
    url: String,
}

impl TestPage {
    /// Loads the test page from this site.
    pub async fn load(driver: WebDriver, site: &Site) -> Self {
        Self::load_url(driver, format!("{}/", site.origin())).await
    }

    /// Loads it with clocks and timers that move only by hand.
    pub async fn load_with_fake_clock(driver: WebDriver, site: &Site) -> Self {
        Self::load_url(driver, format!("{}/?clock=fake", site.origin())).await
    }

    /// The test page that the driver shows already.
    pub async fn shown(driver: WebDriver, site: &Site) -> Self {
        let shown = Self { page: Page::new(driver), url: format!("{}/", site.origin()) };
        shown.page.until("globalThis.pk !== undefined").await;
        shown
    }

    async fn load_url(driver: WebDriver, url: String) -> Self {
        let loaded = Self { page: Page::new(driver), url };
        loaded.load_again().await;
        loaded
    }

    /// Loads it once more: another context of the same tab.
    pub async fn load_again(&self) {
        self.page.goto(&self.url).await;
        self.page.until("globalThis.pk !== undefined").await;
    }

    /// Closes the tab, and loads the page in another one of the same browser.
    pub async fn another_tab(&self) {
        let driver = self.page.driver();
        let other = driver.new_tab().await.expect("a tab can be opened");
        driver.close_window().await.expect("a tab can be closed");
        driver.switch_to_window(other).await.expect("the other can be looked at");
        self.load_again().await;
    }

    /// Opens a session. Options: `socket`, `principal`, `http`, `token`, `durability`, `handlerTimeoutMs`, `binaryType`.
    pub async fn start(&self, options: Value) {
        self.page.run("await pk.start(args)", options).await;
    }

    /// Opens a session on a raw server with these documents, empty and at version 1, and no reconcile hook.
    pub async fn start_on(&self, socket: &str, docs: &[&str]) {
        self.start(json!({ "socket": socket })).await;
        for doc in docs {
            self.open(doc, json!({})).await;
        }
    }

    /// Opens a document. Options: `text`, `baseSeq`, `homed`, `reconcile`, `unconfirmed`.
    pub async fn open(&self, doc: &str, options: Value) {
        self.page.run("await pk.open(args.doc, args.options)", json!({ "doc": doc, "options": options })).await;
    }

    /// The handler of a document from now on: the body of an asynchronous function of `patch` and `doc`.
    pub async fn handle_async(&self, doc: &str, body: &str) {
        self.page.run("pk.handle(args.doc, args.body, true)", json!({ "doc": doc, "body": body })).await;
    }

    /// The same, synchronous.
    pub async fn handle(&self, doc: &str, body: &str) {
        self.page.run("pk.handle(args.doc, args.body, false)", json!({ "doc": doc, "body": body })).await;
    }

    /// A document's text.
    pub async fn text(&self, doc: &str) -> String {
        let text = self.page.run("return pk.docs.get(args).text", json!(doc)).await;
        text.as_str().expect("a document is text").to_owned()
    }

    /// How often a document's handler was called.
    pub async fn calls(&self, doc: &str) -> u64 {
        self.page.run("return pk.docs.get(args).calls.length", json!(doc)).await.as_u64().expect("a length is a count")
    }

    /// The codes of the `problem` events so far.
    pub async fn problems(&self) -> Vec<String> {
        let codes = self.page.eval("pk.eventsOf('problem').map((problem) => problem.code)").await;
        codes.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
    }

    /// Waits for a `problem` event with this code.
    pub async fn problem(&self, code: &str) -> Value {
        self.page.until(&format!("pk.eventsOf('problem').find((problem) => problem.code === '{code}')")).await
    }

    /// Waits until the session says that it is connected.
    pub async fn live(&self) {
        self.page.until("pk.session.connection.state === 'live'").await;
    }

    /// Opens a gate that a handler waits at.
    pub async fn open_gate(&self, name: &str) {
        self.page.run("pk.openGate(args)", json!(name)).await;
    }

    /// Waits until a handler waits at this gate.
    pub async fn at_gate(&self, name: &str) {
        self.page.until(&format!("pk.isAtGate('{name}')")).await;
    }

    /// Awaits a test; where it fails, the last frames of the page are printed first.
    pub async fn telling_frames<T>(&self, test: impl Future<Output = T>) -> T {
        match AssertUnwindSafe(test).catch_unwind().await {
            Ok(value) => value,
            Err(panic) => {
                let told = AssertUnwindSafe(
                    self.page
                        .eval("globalThis.pkFrames.slice(-40).map(({ way, data }) => `${way} ${data.slice(0, 600)}`)"),
                );
                for frame in told.catch_unwind().await.iter().filter_map(Value::as_array).flatten() {
                    eprintln!("{}", frame.as_str().unwrap_or_default());
                }
                resume_unwind(panic)
            }
        }
    }

    /// What every scenario ends with: nothing was left unhandled, nothing crashed.
    pub async fn check(&self) {
        let errors = self.page.eval("pk.errors").await;
        assert_eq!(errors, json!([]), "the page was left with errors");
    }
}

impl std::ops::Deref for TestPage {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}
