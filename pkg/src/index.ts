/** Everything that `import … from "patchkeep"` gives. Importing it has no side effect. */

export { openSession } from "./open.js";
export type { Session } from "./session.js";
export * from "./surface.js";
