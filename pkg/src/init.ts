/** Loads the WebAssembly module, once per page, when the first session is opened. */

import * as bindings from "../wasm/patchkeep_wasm.js";
import type { Engine } from "./engine.js";
import { PatchkeepError } from "./errors.js";

/** The module, loaded. A load that failed is tried again by the next call. */
export function loadEngine(): Promise<Engine> {
  if (hasCrashed) {
    return Promise.reject(new PatchkeepError("crashed"));
  }
  loading ??= instantiate().catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

/** Calls `listener` when the module has panicked or trapped. Returns what ends that. */
export function whenCrashed(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Notes that the module has panicked or trapped: all its sessions are dead. A new page load gets a new module. */
export function crashed(): void {
  if (!hasCrashed) {
    hasCrashed = true;
    listeners.forEach((listener) => listener());
  }
}

let hasCrashed = false;
const listeners = new Set<() => void>();
let loading: Promise<Engine> | undefined;

async function instantiate(): Promise<Engine> {
  if (typeof WebAssembly !== "object") {
    throw new PatchkeepError("wasm_unsupported");
  }
  const module = await compile(await fetchModule());
  try {
    await bindings.default({ module_or_path: module });
  } catch (cause) {
    throw new PatchkeepError("wasm_unsupported", "it could not be started", { cause });
  }
  const engine: Engine = bindings;
  engine.onCrash(crashed);
  return engine;
}

async function fetchModule(): Promise<Response> {
  const url = new URL("../wasm/patchkeep_wasm_bg.wasm", import.meta.url);
  let response: Response;
  try {
    response = await fetch(url, { credentials: "same-origin" });
  } catch (cause) {
    throw new PatchkeepError("wasm_unavailable", "the request failed", { cause });
  }
  if (!response.ok) {
    throw new PatchkeepError("wasm_unavailable", `the server answered ${response.status}`);
  }
  return response;
}

/** Compiles while it loads where the server names the media type, bare as engines want it, otherwise afterwards. */
async function compile(response: Response): Promise<WebAssembly.Module> {
  const isWasm = response.headers.get("content-type")?.trim().toLowerCase() === "application/wasm";
  try {
    if (isWasm && typeof WebAssembly.compileStreaming === "function") {
      return await WebAssembly.compileStreaming(response);
    }
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (cause) {
    if (cause instanceof WebAssembly.CompileError) {
      throw new PatchkeepError("wasm_unsupported", "it is damaged, blocked by a policy, or not understood here", { cause });
    }
    throw new PatchkeepError("wasm_unavailable", "it could not be read to its end", { cause });
  }
}
