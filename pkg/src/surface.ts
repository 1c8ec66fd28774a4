/** What every entry gives, wherever its WebAssembly module comes from. */

export type { Mark, PatchkeepDocument } from "./document.js";
export { keptIn, upgrade } from "./co-commit.js";
export { PatchkeepError, type PatchkeepErrorCode, refuse } from "./errors.js";
export { persistStorage } from "./persistence.js";
export type { SessionEventMap } from "./events.js";
export { planTextEdit, type TextEditPlan } from "./text.js";
export type * from "./types.js";
