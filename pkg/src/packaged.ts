/** Where the package's own WebAssembly module is. Only entries that ship it import this: bundlers take along what it names. */
export const packagedModule = (): URL => new URL("../wasm/patchkeep_wasm_bg.wasm", import.meta.url);
