/** A handler for CodeMirror 6: one transaction, one undo step, the cursor stays where it was in the text. */

import { isolateHistory } from "@codemirror/commands";
import { Transaction } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import { refuse } from "./errors.js";
import { isHigh, isLow, planTextEdit, type TextEditPlan } from "./text.js";
import type { ApplyHandler, Patch } from "./types.js";

/** The user event of every patch: `transaction.isUserEvent("patchkeep")` tells one from typing. */
export const PATCH_USER_EVENT = "patchkeep.apply";

/**
 * Applies text patches to a view. Refuses, changing nothing, where the editor is read-only or would make another text
 * of it than the patch says (a change filter, another form of line breaks).
 */
export function apply(view: EditorView): ApplyHandler {
  return (patch: Patch): undefined => {
    const { state } = view;
    if (state.readOnly) {
      throw refuse("handler_refused", "the editor is read-only");
    }
    const text = state.doc.toString();
    const plan = tighten(text, planTextEdit(text, patch.body));
    const transaction = state.update({
      changes: { from: plan.at, to: plan.at + plan.delete, insert: plan.insert },
      annotations: [Transaction.remote.of(true), isolateHistory.of("full")],
      userEvent: PATCH_USER_EVENT,
    });
    const expected = text.slice(0, plan.at) + plan.insert + text.slice(plan.at + plan.delete);
    if (transaction.newDoc.toString() !== expected) {
      throw refuse("handler_refused", "the editor would make another text of it");
    }
    view.dispatch(transaction);
    if (!view.state.doc.eq(transaction.newDoc)) {
      if (view.state.doc.eq(state.doc)) {
        throw refuse("handler_refused", "the editor did not take the change");
      }
      throw new Error("the editor made another text of the patch");
    }
  };
}

/** The same edit without what it leaves as it was at both ends, so that cursors there do not move. A pair stays whole. */
function tighten(text: string, plan: TextEditPlan): TextEditPlan {
  const gone = text.slice(plan.at, plan.at + plan.delete);
  const most = Math.min(gone.length, plan.insert.length);
  let head = 0;
  while (head < most && gone[head] === plan.insert[head]) {
    head += 1;
  }
  if (isHigh(gone.charCodeAt(head - 1))) {
    head -= 1;
  }
  let tail = 0;
  while (tail < most - head && gone[gone.length - 1 - tail] === plan.insert[plan.insert.length - 1 - tail]) {
    tail += 1;
  }
  if (isLow(gone.charCodeAt(gone.length - tail))) {
    tail -= 1;
  }
  return {
    at: plan.at + head,
    delete: gone.length - head - tail,
    insert: plan.insert.slice(head, plan.insert.length - tail),
  };
}
