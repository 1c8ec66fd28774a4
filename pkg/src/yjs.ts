/**
 * A handler and a reconcile hook for Yjs. The patch id is written into the shared document in the same Yjs transaction
 * as the edit (J6, third way): whoever has one has the other, so every replica can answer for the patch.
 */

import type * as Y from "yjs";
import { refuse } from "./errors.js";
import { planTextEdit, tighten } from "./text.js";
import type { OpenDocumentOptions, Patch, ReconcileAnswer, RecordView } from "./types.js";

/** The origin of every patch's Yjs transaction: `transaction.origin === PATCH_ORIGIN` tells one from typing. */
export const PATCH_ORIGIN: unique symbol = Symbol.for("patchkeep.patch.v1");

/** How a text is bound. */
export interface YjsOptions {
  /** The name of the shared map, in the text's document, that holds the ids of its patches. Default `patchkeep`. */
  readonly marks?: string;
  /**
   * Whether this replica holds everything that any replica of the document ever sent: its local store is loaded and its
   * provider synced. Only then is a patch whose id is not in the document `absent`. Default: it never does.
   */
  readonly isComplete?: () => boolean;
  /** Patches become undo steps of their own here, if it tracks {@link PATCH_ORIGIN}; otherwise undo passes them over. */
  readonly undoManager?: { stopCapturing(): void };
}

/**
 * What `openDocument` needs for a Yjs text: `openDocument(id, { baseSeq, ...yjs(text) })`. Refuses, changing nothing,
 * where the text holds embeds, which have no place in a plain text's offsets.
 */
export function yjs(
  text: Y.Text,
  options: YjsOptions = {},
): Required<Pick<OpenDocumentOptions, "apply" | "reconcile" | "marksInDocument">> {
  const marks = (): Y.Map<unknown> | undefined => text.doc?.getMap(options.marks ?? "patchkeep");
  return {
    marksInDocument: true,
    apply: ({ patchId, body }: Patch): undefined => {
      const known = marks();
      if (text.doc === null || known === undefined) {
        throw refuse("not_open", "the text is in no document");
      }
      // Another replica made the effect, and it came here with its id.
      if (known.has(patchId)) {
        return;
      }
      const before = text.toString();
      if (before.length !== text.length) {
        throw refuse("handler_refused", "the text holds embeds");
      }
      const { at, delete: length, insert } = tighten(before, planTextEdit(before, body));
      options.undoManager?.stopCapturing();
      text.doc.transact(() => {
        text.delete(at, length);
        text.insert(at, insert);
        known.set(patchId, true);
      }, PATCH_ORIGIN);
      options.undoManager?.stopCapturing();
    },
    reconcile: ({ patchId }: RecordView): ReconcileAnswer => {
      const known = marks();
      if (known?.has(patchId) === true) {
        return "present";
      }
      return known !== undefined && options.isComplete?.() === true ? "absent" : "unknown";
    },
  };
}
