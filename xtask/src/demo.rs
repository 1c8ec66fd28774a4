//! `serve` and `demo`: the reference server with the page, a token of its own, and the fault switches. The address and
//! the token lie in files below `target/demo/`, where `agent` finds them.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::build;
use crate::tools::browser;
use crate::util::files;
use crate::util::lock::Lock;
use crate::util::paths::{self, at};
use crate::util::sh::{Cmd, cargo, check, say};

/// Who the page and the agent of the demo are.
const PRINCIPAL: &str = "demo/you";

/// Where the demo server's address and token are kept between two commands.
mod state {
    use super::*;

    /// The demo's token: made at first start, readable for its owner only, the same from then on, so that a page that
    /// is still open keeps working when the server is started anew.
    pub fn token() -> Result<String> {
        if let Some(token) = known_token() {
            return Ok(token);
        }
        let mut bytes = [0_u8; 24];
        getrandom::fill(&mut bytes).context("this system gives no random bytes")?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        files::write_private(&paths::demo_state().join("token"), &token)?;
        Ok(token)
    }

    pub fn known_token() -> Option<String> {
        std::fs::read_to_string(paths::demo_state().join("token")).ok().filter(|token| !token.is_empty())
    }

    pub fn address() -> Option<String> {
        std::fs::read_to_string(paths::demo_state().join("address")).ok()
    }

    pub fn keep_address(url: &str) -> Result<()> {
        files::write(&paths::demo_state().join("address"), url)
    }

    pub fn forget_address() {
        // Not being there any more is what is wanted.
        let _ = std::fs::remove_file(paths::demo_state().join("address"));
    }
}

/// What `agent` tells the command line client: address and token of the demo server, where there are any.
pub fn for_agent() -> Option<(String, String)> {
    state::address().zip(state::known_token())
}

/// Builds everything and runs the server until it is stopped.
pub fn serve(port: u16, instructions: bool) -> Result<()> {
    // Two servers on one database would be two truths.
    let Some(_alone) = Lock::try_take("demo")? else {
        bail!("the demo runs already, at {}", state::address().unwrap_or_else(|| "an address yet to come".into()));
    };
    build::all()?;
    cargo(&["build", "--quiet", "--package", "patchkeep-server"]).run()?;
    let server = Arc::new(Mutex::new(start(free(port))?));
    let output = lock(&server).stdout.take().context("the server's output was not piped")?;

    // A signal to xtask ends the server too; its output then ends, and so does the loop below.
    let to_end = Arc::clone(&server);
    ctrlc::set_handler(move || {
        // It may have ended by the same signal already.
        let _ = lock(&to_end).kill();
    })
    .context("cannot watch for Ctrl-C")?;

    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what the server says")?;
        match line.strip_prefix("listening on ") {
            Some(url) => {
                state::keep_address(url.trim())?;
                announce(url.trim(), instructions);
            }
            None => println!("{line}"),
        }
    }
    let status = lock(&server).wait()?;
    state::forget_address();
    // No exit code means that a signal ended it, as it should.
    if status.code().is_some() { check("patchkeep-server", status) } else { Ok(()) }
}

/// Plays the whole story by script in headless Chromium.
pub fn check_by_script() -> Result<()> {
    let browser = browser::ensure()?;
    build::all()?;
    // It starts both programs of this package from the folder it lies in itself.
    cargo(&["build", "--quiet", "--package", "patchkeep-server"]).run()?;
    browser.tell(cargo(&["run", "--quiet", "--package", "patchkeep-e2e", "--bin", "demo-check"])).run()
}

fn start(port: u16) -> Result<Child> {
    let page = at("www/dist");
    if !page.join("index.html").exists() {
        bail!("the page was not built: {} is missing", paths::short(&page.join("index.html")));
    }
    // The token goes by the environment: a command line can be read by everybody on the machine.
    Cmd::new(paths::native_binary("patchkeep-server"))
        .args(["serve", "--demo", "--faults", "--listen"])
        .arg(format!("127.0.0.1:{port}"))
        .arg("--db")
        .arg(at("target/demo.sqlite"))
        .arg("--www")
        .arg(page)
        .env("PATCHKEEP_SERVER_TOKENS", format!("{}={PRINCIPAL}", state::token()?))
        .spawn()
}

/// The port that is asked for, or any free one if it is taken. The same port each time keeps the browser's storage:
/// to a browser another port is another site.
fn free(port: u16) -> u16 {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => port,
        Err(error) => {
            say(format!("port {port} cannot be used ({error}): taking a free one"));
            0
        }
    }
}

fn announce(url: &str, instructions: bool) {
    println!("\n  {url}\n");
    if instructions {
        println!("Open it, and then in a second terminal:\n");
        println!("  cargo xtask agent -- patch notes/welcome --find \"colour\" --replace \"color\"\n");
        println!("Ctrl-C ends the demo; the documents are kept in target/demo.sqlite.");
    }
}

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}
