//! Debian's own rustc (`rustc-web`) with a standard library for wasm32, for machines where rustup cannot fetch one.
//!
//! Debian ships the library's source and no compiled wasm32 library. It is compiled once, from an empty crate, and put
//! where this rustc looks for it. Its bitcode is kept: without it `lto = true` could not link against it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::apt;
use super::wasm_target::{TARGET, has_target, library};
use crate::util::sh::{Cmd, say};
use crate::util::{files, paths};

/// Debian's compiler.
pub const RUSTC: &str = "/usr/bin/rustc";
/// Debian's cargo.
pub const CARGO: &str = "/usr/bin/cargo";
/// Debian's clippy.
pub const CLIPPY: &str = "/usr/bin/cargo-clippy";
/// The linker; this rustc brings no `rust-lld`.
const LINKER: &str = "/usr/bin/wasm-ld-22";
/// What has to be installed.
pub const PACKAGES: [&str; 6] =
    ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "rust-web-clippy", "lld-22"];
/// Names the compiler that the library was built by: after an upgrade of the package it must be built anew.
const BUILT_BY: &str = "built-by";

/// What cargo needs to know to use these programs and no others.
pub fn environment() -> [(&'static str, &'static str); 4] {
    [
        ("CARGO", CARGO),
        ("RUSTC", RUSTC),
        ("RUSTDOC", "/usr/bin/rustdoc"),
        ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", LINKER),
    ]
}

/// Whether all of it is here and belongs together.
pub fn is_ready() -> bool {
    programs_are_here()
        && has_target(Path::new(RUSTC))
        && library(Path::new(RUSTC)).is_some_and(|folder| {
            let built_by = fs::read_to_string(folder.join(BUILT_BY)).ok();
            // Without a note somebody else put the library there, by hand or from a package: theirs to keep right.
            built_by.is_none_or(|built_by| compiler().is_ok_and(|now| now == built_by))
        })
}

/// Installs the packages and builds the library.
pub fn install() -> Result<()> {
    if !programs_are_here() {
        apt::install(&PACKAGES, "Rust for wasm32")?;
    }
    say(format!("building the standard library for {TARGET} once (about a minute)"));
    build_library().with_context(|| format!("Debian's Rust toolchain could not be made to compile for {TARGET}"))
}

fn programs_are_here() -> bool {
    [RUSTC, CARGO, CLIPPY, LINKER].iter().all(|program| Path::new(program).exists()) && library_source().exists()
}

/// One file that stands for the library's source being installed.
fn library_source() -> PathBuf {
    PathBuf::from("/usr/lib/rustlib/src/rust/library/std/Cargo.toml")
}

fn build_library() -> Result<()> {
    let scratch = paths::at("target/wasm-std");
    files::fresh_dir(&scratch)?;
    // A workspace of its own, or cargo would take it for a lost member of ours.
    let manifest = "[package]\nname = \"empty\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n";
    files::write(&scratch.join("Cargo.toml"), manifest)?;
    files::write(&scratch.join("src/lib.rs"), "")?;
    Cmd::new(CARGO)
        .args(["build", "--quiet", "--release", "--target", TARGET, "-Zbuild-std=std,panic_abort,test"])
        .dir(&scratch)
        .env("CARGO_TARGET_DIR", scratch.join("target"))
        .envs(environment())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Cembed-bitcode=yes")
        .quiet()?;

    let folder = library(Path::new(RUSTC)).context("rustc does not say where it looks for libraries")?;
    files::fresh_dir(&folder)?;
    for built in files::below(&scratch.join("target").join(TARGET).join("release/deps"))? {
        let name = built.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libempty-") {
            fs::copy(&built, folder.join(&name)).with_context(|| format!("cannot copy {name}"))?;
        }
    }
    files::write(&folder.join(BUILT_BY), &compiler()?)?;
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}

fn compiler() -> Result<String> {
    Cmd::new(RUSTC).arg("-vV").output()
}
