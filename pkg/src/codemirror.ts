/** A handler for CodeMirror 6: one transaction, one undo step, the cursor stays where it was in the text. */

import { isolateHistory } from "@codemirror/commands";
import { Transaction } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import { refuse } from "./errors.js";
import { planTextEdit, tighten } from "./text.js";
import type { ApplyHandler, Patch } from "./types.js";

/** The user event of every patch: `transaction.isUserEvent("patchkeep")` tells one from typing. */
export const PATCH_USER_EVENT = "patchkeep.apply";

/**
 * Applies text patches to a view. CodeMirror keeps every line break as one position: where a document has others than
 * `\n`, say so with `EditorState.lineSeparator`, and save `view.state.sliceDoc()`, which gives them back; offsets and
 * anchors are those of that text. Refuses, changing nothing, where the editor is read-only or would make another text
 * of it than the patch says (a change filter, another form of line breaks).
 */
export function apply(view: EditorView): ApplyHandler {
  return (patch: Patch): undefined => {
    const { state } = view;
    if (state.readOnly) {
      throw refuse("handler_refused", "the editor is read-only");
    }
    const text = state.sliceDoc();
    const plan = tighten(text, planTextEdit(text, patch.body));
    const transaction = state.update({
      changes: {
        from: position(text, plan.at, state.lineBreak),
        to: position(text, plan.at + plan.delete, state.lineBreak),
        insert: state.toText(plan.insert),
      },
      annotations: [Transaction.remote.of(true), isolateHistory.of("full")],
      userEvent: PATCH_USER_EVENT,
    });
    const expected = text.slice(0, plan.at) + plan.insert + text.slice(plan.at + plan.delete);
    if (transaction.newDoc.sliceString(0, undefined, state.lineBreak) !== expected) {
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

/** An offset of the text as a position of the editor. */
function position(text: string, at: number, lineBreak: string): number {
  const before = text.slice(0, at);
  if (lineBreak.length > 1 && before.endsWith(lineBreak[0] ?? "") && text.startsWith(lineBreak, at - 1)) {
    throw refuse("handler_refused", "the place is inside a line break");
  }
  return at - (before.split(lineBreak).length - 1) * (lineBreak.length - 1);
}
