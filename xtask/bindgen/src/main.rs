//! `xtask-bindgen MODULE.wasm OUT_DIR`: the JavaScript and TypeScript bindings of a module compiled for wasm32,
//! as ES modules for browsers (`web`), without names and producers, which would only cost bytes.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(module), Some(out), None) = (args.next(), args.next(), args.next()) else {
        bail!("usage: xtask-bindgen MODULE.wasm OUT_DIR");
    };
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(&module)
        .web(true)?
        .typescript(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(&out)
        .with_context(|| format!("no bindings for {}", module.display()))
}
