/**
 * `patchkeep/slim`: the same package without its WebAssembly module, for libraries, strict policies and hosts that
 * serve the file themselves (`patchkeep/wasm/patchkeep_wasm_bg.wasm`). Importing it has no side effect.
 */

import { invalid } from "./errors.js";
import { loadedEngine, loadEngine, type ModuleSource } from "./init.js";
import { openSessionWith, type Session } from "./session.js";
import type { SessionOptions } from "./types.js";

export type { ModuleSource } from "./init.js";
export type { Session } from "./session.js";
export * from "./surface.js";

/**
 * Loads the module: from its address, or from bytes. Once per page; a load that failed may be tried again, also from
 * elsewhere. Rejects with `invalid_argument`, `wasm_unavailable`, `wasm_unsupported` or `crashed`.
 */
export async function init(source: ModuleSource): Promise<void> {
  if (!(typeof source === "string" || source instanceof URL || source instanceof ArrayBuffer || ArrayBuffer.isView(source))) {
    throw invalid("source");
  }
  await loadEngine(() => source);
}

/** As `openSession` of `patchkeep`, after `init`; rejects with `not_initialized` before. */
export async function openSession(options: SessionOptions): Promise<Session> {
  return openSessionWith(loadedEngine, options);
}
