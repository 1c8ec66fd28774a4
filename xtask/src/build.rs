//! `build`: the WebAssembly module, its bindings, the npm package and the page.
//!
//! ```text
//! src/wasm ─ cargo ─► .wasm ─ wasm-bindgen, wasm-opt ─► pkg/wasm ─ tsc ─► pkg/dist ─ Vite ─► www/dist
//! ```
//!
//! Each step but cargo's, which knows by itself, is passed over if nothing it reads has changed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tools::{bindgen, node, wasm_opt, wasm_target};
use crate::util::files;
use crate::util::lock::Lock;
use crate::util::paths::{self, at};
use crate::util::sh::say;
use crate::util::stamp::Step;

const MODULE: &str = "patchkeep_wasm";
/// The cargo profile of what is shipped.
const PROFILE: &str = "wasm";

/// Builds everything a browser needs.
pub fn all() -> Result<()> {
    let _alone = Lock::take("build")?;
    bindings()?;
    package_code()?;
    page()
}

/// Builds `pkg/`: the module, its bindings, the TypeScript.
pub fn package() -> Result<()> {
    let _alone = Lock::take("build")?;
    bindings()?;
    package_code()
}

/// Compiles the TypeScript of `pkg/`.
fn package_code() -> Result<()> {
    let package = at("pkg");
    node::install_dependencies(&package)?;
    inputs(Step::new("pkg").input(&package.join("wasm"))?, &package)?.output(&package.join("dist/index.js")).run(|| {
        say("compiling pkg/");
        node::run_script(&package, "build").run()
    })
}

/// Compiles the module and makes its bindings in `pkg/wasm/`.
fn bindings() -> Result<()> {
    let toolchain = wasm_target::ensure()?;
    toolchain.cargo("build").args(["--quiet", "--profile", PROFILE, "--package", "patchkeep-wasm"]).run()?;
    let compiled = paths::wasm_target().join(wasm_target::TARGET).join(PROFILE).join(format!("{MODULE}.wasm"));
    let out = at("pkg/wasm");
    Step::new("bindings")
        .text(bindgen::version())
        .text(&wasm_opt::recipe())
        .input(&compiled)?
        .output(&out.join(format!("{MODULE}.js")))
        .output(&out.join(format!("{MODULE}_bg.wasm")))
        .run(|| {
            say("making the bindings in pkg/wasm/");
            // Made aside and moved when whole: a page that is open meanwhile never loads half of it.
            let aside = at("target/bindings");
            files::fresh_dir(&aside)?;
            bindgen::generate(&compiled, &aside)?;
            let module = aside.join(format!("{MODULE}_bg.wasm"));
            wasm_opt::shrink(&module, &module)?;
            if out.exists() {
                fs::remove_dir_all(&out).with_context(|| format!("cannot replace {}", out.display()))?;
            }
            fs::create_dir_all(at("pkg"))?;
            fs::rename(&aside, &out).with_context(|| format!("cannot replace {}", out.display()))
        })
}

/// Builds `www/`: the page, from the package as it was just built.
fn page() -> Result<()> {
    let page = at("www");
    node::install_dependencies(&page)?;
    let step = Step::new("www").input(&at("pkg/dist"))?.input(&at("pkg/wasm"))?;
    inputs(step, &page)?.output(&page.join("dist/index.html")).run(|| {
        say("building www/");
        node::run_script(&page, "build").run()
    })
}

/// Everything in a package's folder that a person wrote: all but what is built or installed there, and its tests.
fn inputs(mut step: Step, package: &Path) -> Result<Step> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(package).with_context(|| format!("cannot list {}", package.display()))? {
        entries.push(entry?.path());
    }
    entries.sort();
    let other = ["dist", "wasm", "node_modules", "test", "fixtures"].map(|name| package.join(name));
    for entry in entries.iter().filter(|entry| !other.contains(entry)) {
        step = step.text(&paths::short(entry)).input(entry)?;
    }
    Ok(step)
}
