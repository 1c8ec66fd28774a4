//! Where things are. Nothing else in xtask joins a path to the root of the work tree by hand.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the work tree. Cargo tells at run time where xtask lies; the place it was compiled in is only for a
/// binary started by hand.
pub fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// A file or folder named relative to the root.
pub fn at(relative: &str) -> PathBuf {
    root().join(relative)
}

/// Where native builds go: what the person set, else `target/`.
pub fn native_target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => at("").join(dir),
        None => at("target"),
    }
}

/// Where wasm builds go: a folder of their own, so that neither kind of build throws away the other's fingerprints
/// or waits for its lock.
pub fn wasm_target() -> PathBuf {
    at("target/wasm")
}

/// A binary of ours, built with the dev profile.
pub fn native_binary(name: &str) -> PathBuf {
    native_target().join("debug").join(format!("{name}{}", env::consts::EXE_SUFFIX))
}

/// The state of the demo: database, token, address.
pub fn demo_state() -> PathBuf {
    at("target/demo")
}

/// Tools that xtask installs for itself: outside `target/`, so that a clean build does not fetch them anew.
pub fn cache() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .unwrap_or_else(|| at("target/cache"));
    base.join("patchkeep")
}

/// A path as a person wants to read it: relative to the root where it lies below it.
pub fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
