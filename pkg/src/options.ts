/** Checks what a session is opened with: a wrong argument is named, not guessed at. */

import { invalid } from "./errors.js";
import { isWellFormed } from "./text.js";
import type { SessionOptions } from "./types.js";

/** A copy that later changes of the host's object do not reach. */
export function checkSessionOptions(options: SessionOptions): SessionOptions {
  const { principal, socket, http, storage, handlerTimeoutMs, signal } = options ?? {};
  if (typeof principal !== "string" || !isPrincipal(principal)) {
    throw invalid("principal");
  }
  if (typeof socket?.url !== "function") {
    throw invalid("socket.url");
  }
  if (socket.binaryType !== undefined && !BINARY_TYPES.has(socket.binaryType)) {
    throw invalid("socket.binaryType");
  }
  if (http !== undefined && (typeof http?.baseUrl !== "string" || !isWellFormed(http.baseUrl))) {
    throw invalid("http.baseUrl");
  }
  if (http?.headers !== undefined && typeof http.headers !== "function") {
    throw invalid("http.headers");
  }
  if (storage?.durability !== undefined && !DURABILITIES.has(storage.durability)) {
    throw invalid("storage.durability");
  }
  if (!isTime(storage?.timeoutMs)) {
    throw invalid("storage.timeoutMs");
  }
  if (storage?.onBlocked !== undefined && typeof storage.onBlocked !== "function") {
    throw invalid("storage.onBlocked");
  }
  if (!isTime(handlerTimeoutMs)) {
    throw invalid("handlerTimeoutMs");
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalid("signal");
  }
  return { ...options, socket: { ...socket }, ...(http === undefined ? {} : { http: { ...http } }) };
}

function isTime(ms: number | undefined): boolean {
  return ms === undefined || (Number.isSafeInteger(ms) && ms > 0);
}

function isPrincipal(text: string): boolean {
  return text !== "" && isWellFormed(text) && new TextEncoder().encode(text).length <= MAX_PRINCIPAL_BYTES;
}

const MAX_PRINCIPAL_BYTES = 256;
const BINARY_TYPES: ReadonlySet<string> = new Set(["blob", "arraybuffer"]);
const DURABILITIES: ReadonlySet<string> = new Set(["strict", "relaxed", "memory"]);
