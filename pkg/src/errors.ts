/** The one error class, its codes, and the refusal that a handler throws. */

import type { RefusalReason } from "./types.js";

/** Stable codes; messages may change. */
export type PatchkeepErrorCode =
  | "invalid_argument"
  | "already_open"
  | "not_open"
  | "handler_running"
  | "not_announced"
  | "fenced"
  | "closed"
  | "crashed"
  | "session_exists"
  | "not_initialized"
  | "transaction_over"
  | "store_missing"
  | "storage_sound"
  | "storage_blocked"
  | "wasm_unavailable"
  | "wasm_unsupported"
  | "internal";

/** A call was misused, came too late, or cannot be served here. */
export class PatchkeepError extends Error {
  readonly code: PatchkeepErrorCode;
  /** Whether the same call may succeed later without anything else being changed. */
  readonly retryable: boolean;
  /** More about the code: for `invalid_argument` the argument's name. */
  readonly detail: string | undefined;

  constructor(code: PatchkeepErrorCode, detail?: string, options?: { readonly cause?: unknown }) {
    super(detail === undefined ? MESSAGES[code] : `${MESSAGES[code]}: ${detail}`, options);
    this.name = "PatchkeepError";
    this.code = code;
    this.retryable = RETRYABLE.has(code);
    this.detail = detail;
  }
}

/**
 * What a handler throws to say that it changed nothing: `throw refuse("anchor_not_found")`. A reason that is no word
 * of the protocol goes out as `handler_refused` with that word as its detail.
 */
export function refuse(reason: RefusalReason | (string & {}), detail?: string): Error {
  return new Refusal(reason, detail);
}

/** Whether a thrown value is a refusal, by this copy of the package or another. */
export function isRefusal(thrown: unknown): thrown is { readonly reason: string; readonly detail?: string } {
  return typeof thrown === "object" && thrown !== null && REFUSAL in thrown;
}

/** An argument that is not what it must be, by its name. */
export function invalid(argument: string): PatchkeepError {
  return new PatchkeepError("invalid_argument", argument);
}

/** The brand, shared by all copies of the package. */
const REFUSAL = Symbol.for("patchkeep.refusal.v1");

class Refusal extends Error {
  readonly reason: string;
  readonly detail: string | undefined;

  constructor(reason: string, detail: string | undefined) {
    super(detail === undefined ? reason : `${reason}: ${detail}`);
    this.name = "Refusal";
    this.reason = reason;
    this.detail = detail;
    Object.defineProperty(this, REFUSAL, { value: true });
  }
}

const RETRYABLE: ReadonlySet<PatchkeepErrorCode> = new Set(["handler_running", "not_announced", "session_exists", "wasm_unavailable"]);

const MESSAGES: Readonly<Record<PatchkeepErrorCode, string>> = {
  invalid_argument: "invalid argument",
  already_open: "the document is open already",
  not_open: "the document is not open, or this mark is of an earlier incarnation",
  not_announced: "the server is just being told of this content; a save before that could not be told from an older one's",
  handler_running: "a patch handler of this document has not settled; its effect may or may not be in the text",
  fenced: "another context took over this tab; reload the document before editing or saving it",
  closed: "the session is closed",
  crashed: "the engine crashed; reload the page",
  transaction_over: "the transaction takes no more requests: nothing but its own requests may be awaited before putIn",
  store_missing: "the transaction does not cover the store `patchkeep` for writing, or upgrade(db) never made it",
  storage_sound: "nothing is wrong with the storage; nothing was deleted",
  storage_blocked: "another tab holds the storage; it is deleted once that is closed",
  not_initialized: "`init` of patchkeep/slim was not called",
  session_exists: "this page has an open session of that principal already",
  wasm_unavailable: "the WebAssembly module could not be loaded",
  wasm_unsupported: "this browser cannot run the WebAssembly module",
  internal: "unexpected failure",
};
