//! The demo page in a browser, used as a person uses it.

use std::ops::Deref;
use std::path::Path;

use serde_json::json;
use thirtyfour::{By, Key, WebDriver};

use crate::page::Page;

/// The demo page.
#[derive(Clone, Debug)]
pub struct DemoPage {
    page: Page,
}

impl DemoPage {
    /// The page that this driver will show.
    pub const fn new(driver: WebDriver) -> Self {
        Self { page: Page::new(driver) }
    }

    /// Opens it and waits until it is connected and its documents are loaded.
    pub async fn open(driver: WebDriver, url: &str) -> Self {
        let page = Self::new(driver);
        page.load(url).await;
        page
    }

    /// The same, once more.
    pub async fn load(&self, url: &str) {
        self.goto(url).await;
        self.until("document.querySelector('#chip-connection b')?.textContent === 'live'").await;
        self.saved().await;
    }

    /// Waits until the document in view is saved.
    pub async fn saved(&self) {
        self.until("document.querySelector('#save-state').dataset.state === 'clean'").await;
    }

    /// The text in the editor in view.
    pub async fn editor_text(&self) -> String {
        let lines = "[...document.querySelectorAll('[role=tabpanel]:not([hidden]) .cm-line')].map((line) => line.textContent).join('\\n')";
        self.eval(lines).await.as_str().expect("an editor holds text").to_owned()
    }

    /// Turns a fault switch on by its label, as a person does.
    pub async fn press_switch(&self, label: &str) {
        let press =
            "const label = [...document.querySelectorAll('.switch label')].find((each) => each.textContent === args);
            label.click();
            const input = document.getElementById(label.htmlFor);
            if (!input.checked) throw new Error('it did not turn on');";
        self.run(press, json!(label)).await;
        self.until("document.querySelector('#faults-count').textContent !== 'none armed'").await;
    }

    /// Types at the end of the editor in view.
    pub async fn type_at_the_end(&self, text: &str) {
        let editor = "[role=tabpanel]:not([hidden]) .cm-content";
        let content = self.driver().find(By::Css(editor)).await.expect("an editor is in view");
        content.click().await.expect("it can be clicked");
        content.send_keys(Key::Control + Key::End).await.expect("it takes keys");
        content.send_keys(text).await.expect("it takes keys");
    }

    /// Saves do not leave the page from here on.
    pub async fn hold_saves(&self) {
        let hold = "const plain = globalThis.fetch;
            const released = new Promise((done) => (globalThis.releaseSaves = () => (globalThis.fetch = plain, done())));
            globalThis.fetch = async (request, init) => {
              if ((init?.method ?? request.method) === 'PUT') await released;
              return plain(request, init);
            };";
        self.run(hold, json!({})).await;
    }

    /// Those that were held leave now.
    pub async fn release_saves(&self) {
        self.run("releaseSaves()", json!({})).await;
    }

    /// Presses the button with this label.
    pub async fn press(&self, label: &str) {
        let press = "const all = [...document.querySelectorAll('button')];
            const found = all.find((button) => button.textContent === args && !button.disabled);
            if (!found) throw new Error(`no button ${args}`);
            found.click();";
        self.run(press, json!(label)).await;
    }

    /// Shows this document.
    pub async fn choose(&self, doc: &str) {
        self.run("document.querySelector(`[role=tab][data-doc='${args}']`).click()", json!(doc)).await;
    }

    /// A picture of the whole page.
    pub async fn picture(&self, path: &Path) {
        let parameters = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.cdp("Page.captureScreenshot", parameters).await;
        // Decoding happens in the browser, which has it at hand.
        let decode = "return [...Uint8Array.from(atob(args), (character) => character.charCodeAt(0))]";
        let bytes = self.run(decode, shot["data"].clone()).await;
        let bytes: Vec<u8> =
            bytes.as_array().into_iter().flatten().filter_map(|byte| byte.as_u64()?.try_into().ok()).collect();
        tokio::fs::write(path, bytes).await.expect("the picture is written");
    }
}

impl Deref for DemoPage {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}
