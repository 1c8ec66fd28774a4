//! src/wasm
