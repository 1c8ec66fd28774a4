/** Loads the WebAssembly module, once per page, from where the entry says. */

import * as bindings from "../wasm/patchkeep_wasm.js";
import type { Engine } from "./engine.js";
import { PatchkeepError } from "./errors.js";

/** Where the module is, or the module itself as bytes. */
export type ModuleSource = string | URL | BufferSource;

/** The module, loaded from there unless that was done. A load that failed is tried again by the next call. */
export function loadEngine(source: () => ModuleSource): Promise<Engine> {
  if (hasCrashed) {
    return Promise.reject(new PatchkeepError("crashed"));
  }
  loading ??= instantiate(source).catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

/** The module that `loadEngine` was called for. */
export function loadedEngine(): Promise<Engine> {
  if (hasCrashed) {
    return Promise.reject(new PatchkeepError("crashed"));
  }
  return loading ?? Promise.reject(new PatchkeepError("not_initialized"));
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

async function instantiate(source: () => ModuleSource): Promise<Engine> {
  if (typeof WebAssembly !== "object") {
    throw new PatchkeepError("wasm_unsupported");
  }
  const given = source();
  const isAddress = typeof given === "string" || given instanceof URL;
  const module = await (isAddress ? compile(await fetchModule(given)) : compileBytes(given));
  try {
    await bindings.default({ module_or_path: module });
  } catch (cause) {
    throw new PatchkeepError("wasm_unsupported", "it could not be started", { cause });
  }
  const engine: Engine = bindings;
  engine.onCrash(crashed);
  return engine;
}

async function fetchModule(url: string | URL): Promise<Response> {
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
    throw cause instanceof WebAssembly.CompileError
      ? notCompiled(cause)
      : new PatchkeepError("wasm_unavailable", "it could not be read to its end", { cause });
  }
}

async function compileBytes(bytes: BufferSource): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    throw notCompiled(cause);
  }
}

function notCompiled(cause: unknown): PatchkeepError {
  return new PatchkeepError("wasm_unsupported", "it is damaged, blocked by a policy, or not understood here", { cause });
}
