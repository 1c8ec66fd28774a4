/** `openSession` of the entry that finds its WebAssembly module by itself. */

import { loadEngine } from "./init.js";
import { packagedModule } from "./packaged.js";
import { openSessionWith, type Session } from "./session.js";
import type { SessionOptions } from "./types.js";

/**
 * Opens a session: takes this tab's identity, loads its journal and connects. Missing or broken storage is no reason
 * to reject: `durability` says what is left.
 */
export function openSession(options: SessionOptions): Promise<Session> {
  return openSessionWith(() => loadEngine(packagedModule), options);
}
