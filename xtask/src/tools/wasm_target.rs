//! A Rust toolchain that compiles for `wasm32-unknown-unknown`.
//!
//! ```text
//! the default rustc has the target ──────────────► default
//! Debian's rustc has it (see `debian_std`) ──────► Debian
//! `rustup target add` succeeds ──────────────────► default
//! root on Debian: packages, then build its std ──► Debian
//! else ──────────────────────────────────────────► a message that says what to do
//! ```
//!
//! Debian's toolchain is called by its paths and not by a name linked into rustup: a link is one more thing that can
//! be missing, and rustup need not be there at all. Native code stays on the default toolchain either way.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Finding, Found, debian_std};
use crate::util::machine::{self, on_path};
use crate::util::paths;
use crate::util::sh::{Cmd, say};

/// The target, as rustc calls it.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Which toolchain to use, where the choice shall not be left to xtask: `rustup` or `debian`.
const CHOICE: &str = "PATCHKEEP_WASM_TOOLCHAIN";

/// A toolchain that was seen to have the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WasmToolchain {
    /// The one every other call uses.
    Default,
    /// Debian's `rustc-web`, under `/usr/bin`.
    Debian,
}

impl WasmToolchain {
    /// A cargo call that builds for wasm32 into the wasm build folder.
    pub fn cargo(self, subcommand: &str) -> Cmd {
        let program = if self == Self::Default { "cargo" } else { debian_std::CARGO };
        self.prepare(Cmd::new(program).arg(subcommand))
    }

    /// `cargo clippy`. Debian's is started directly: cargo would look for it in cargo's home first and find rustup's.
    pub fn clippy(self) -> Cmd {
        let program = if self == Self::Default { "cargo" } else { debian_std::CLIPPY };
        self.prepare(Cmd::new(program).arg("clippy"))
    }

    fn prepare(self, cmd: Cmd) -> Cmd {
        let cmd = cmd.args(["--target", TARGET]).dir(paths::root()).env("CARGO_TARGET_DIR", paths::wasm_target());
        match self {
            Self::Default => cmd,
            Self::Debian => cmd.envs(debian_std::environment()),
        }
    }
}

/// Finds a toolchain with the target, or installs one.
pub fn ensure() -> Result<WasmToolchain> {
    let choice = machine::var(CHOICE);
    let (rustup, debian) = match choice.as_deref() {
        None | Some("auto") => (true, true),
        Some("rustup") => (true, false),
        Some("debian") => (false, true),
        Some(other) => bail!("{CHOICE}={other}: it must be rustup, debian or auto"),
    };
    if rustup && has_target(Path::new("rustc")) {
        return Ok(WasmToolchain::Default);
    }
    if debian && debian_std::is_ready() {
        return Ok(WasmToolchain::Debian);
    }
    if rustup && add_with_rustup() {
        return Ok(WasmToolchain::Default);
    }
    if debian && machine::can_apt() && machine::is_debian() {
        debian_std::install()?;
        return Ok(WasmToolchain::Debian);
    }
    bail!("no Rust toolchain here can compile for {TARGET}; please run `rustup target add {TARGET}`")
}

/// Whether this rustc has a standard library for the target. Asked of the compiler, so it holds for toolchains from
/// rustup and from anywhere else.
pub fn has_target(rustc: &Path) -> bool {
    library(rustc).is_some_and(|folder| {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("libstd-"))
    })
}

/// Where this rustc looks for the target's libraries, whether they are there or not.
pub fn library(rustc: &Path) -> Option<PathBuf> {
    let asked = Cmd::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).dir(paths::root()).output();
    asked.ok().map(|said| PathBuf::from(said.trim()))
}

/// `rustup target add`; false where there is no rustup or it cannot reach its servers. Without a network it says so
/// at once if it is not told to try again.
fn add_with_rustup() -> bool {
    if on_path(&["rustup"]).is_none() {
        return false;
    }
    say(format!("adding the target {TARGET} with rustup"));
    let add = Cmd::new("rustup").args(["target", "add", TARGET]).dir(paths::root()).env("RUSTUP_MAX_RETRIES", "0");
    match add.quiet() {
        Ok(()) => has_target(Path::new("rustc")),
        Err(error) => {
            let reason = format!("{error:#}");
            say(format!("rustup could not: {}", reason.lines().last().unwrap_or("no reason given")));
            false
        }
    }
}

/// For `doctor`.
pub fn finding() -> Finding {
    let default = PathBuf::from("rustc");
    let rustc =
        if has_target(&default) { Some(default) } else { debian_std::is_ready().then(|| debian_std::RUSTC.into()) };
    let found = rustc.and_then(|rustc: PathBuf| {
        let place = library(&rustc)?.display().to_string();
        Some(Found { place, ..Found::asked(&rustc)? })
    });
    let remedy = if machine::can_apt() && machine::is_debian() {
        format!("rustup target add {TARGET}, else {} with apt and its std built once", debian_std::PACKAGES.join(" "))
    } else {
        format!("rustup target add {TARGET}")
    };
    Finding { tool: "wasm32 target", found, remedy }
}
