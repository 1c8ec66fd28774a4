// The CodeMirror adapter, on real editor states; a view without a page is its state and `dispatch`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { history, undo, undoDepth } from "@codemirror/commands";
import { EditorState, Transaction } from "@codemirror/state";
import { apply, PATCH_USER_EVENT } from "../dist/codemirror.js";
import { isRefusal } from "../dist/errors.js";

function editor(doc, { cursor = 0, extensions = [] } = {}) {
  const view = {
    state: EditorState.create({ doc, selection: { anchor: cursor }, extensions: [history(), extensions] }),
    seen: [],
    dispatch(transaction) {
      const settled = transaction instanceof Transaction ? transaction : this.state.update(transaction);
      this.seen.push(settled);
      this.state = settled.state;
    },
    get text() {
      return this.state.doc.toString();
    },
  };
  view.dispatch = view.dispatch.bind(view);
  return view;
}

const patch = (body) => ({ body });
const append = patch({ kind: "text.append", text: "!" });
const refuses = (reason) => (thrown) => isRefusal(thrown) && thrown.reason === reason;

test("a patch is one transaction that is told from typing", () => {
  const view = editor("colour");
  apply(view)(patch({ kind: "text.replace", find: "colour", replace: "color" }));
  assert.equal(view.text, "color");
  assert.equal(view.seen.length, 1);
  assert.equal(view.seen[0].annotation(Transaction.remote), true);
  assert.ok(view.seen[0].isUserEvent(PATCH_USER_EVENT) && view.seen[0].isUserEvent("patchkeep"));
});

test("the cursor stays at its place in the text, also where the whole text is set", () => {
  const view = editor("one two three", { cursor: 9 });
  apply(view)(patch({ kind: "text.prepend", text: "zero " }));
  assert.equal(view.state.selection.main.head, 14);
  apply(view)(patch({ kind: "text.set", text: "zero ONE two three" }));
  assert.equal(view.state.selection.main.head, 14);
});

test("a patch is one undo step, apart from typing before and after it", () => {
  const view = editor("a");
  const type = (insert) => view.dispatch({ changes: { from: view.state.doc.length, insert }, userEvent: "input.type" });
  type("b");
  apply(view)(append);
  type("c");
  assert.equal(view.text, "ab!c");
  assert.equal(undoDepth(view.state), 3);
  undo(view);
  assert.equal(view.text, "ab!");
  undo(view);
  assert.equal(view.text, "ab");
});

test("a read-only editor refuses and is not changed", () => {
  const view = editor("a", { extensions: EditorState.readOnly.of(true) });
  assert.throws(() => apply(view)(append), refuses("handler_refused"));
  assert.deepEqual([view.text, view.seen.length], ["a", 0]);
});

test("an edit that does not fit refuses with the protocol's word", () => {
  const view = editor("aXbX");
  assert.throws(() => apply(view)(patch({ kind: "text.replace", find: "X", replace: "" })), refuses("anchor_ambiguous"));
  assert.throws(() => apply(view)(patch({ kind: "json.merge", value: {} })), refuses("malformed"));
  assert.equal(view.seen.length, 0);
});

test("an editor that would make another text of it refuses", () => {
  const crlf = editor("a");
  assert.throws(() => apply(crlf)(patch({ kind: "text.append", text: "\r\nb" })), refuses("handler_refused"));
  const filtered = editor("a", { extensions: EditorState.changeFilter.of(() => false) });
  assert.throws(() => apply(filtered)(append), refuses("handler_refused"));
  assert.deepEqual([crlf.text, filtered.text], ["a", "a"]);
});

test("an editor that does not take the change refuses; one that takes another leaves it open", () => {
  const deaf = editor("a");
  deaf.dispatch = () => undefined;
  assert.throws(() => apply(deaf)(append), refuses("handler_refused"));
  const wilful = editor("a");
  wilful.dispatch = function () {
    this.state = this.state.update({ changes: { from: 0, insert: "?" } }).state;
  };
  assert.throws(() => apply(wilful)(append), (thrown) => !isRefusal(thrown));
});

test("surrogate pairs stay whole in what is changed", () => {
  const view = editor("😀x");
  apply(view)(patch({ kind: "text.set", text: "😁x" }));
  assert.equal(view.text, "😁x");
  view.seen[0].changes.iterChanges((from, to) => assert.deepEqual([from, to], [0, 2]));
});

test("a patch that changes nothing is applied", () => {
  const view = editor("same");
  apply(view)(patch({ kind: "text.set", text: "same" }));
  assert.equal(view.text, "same");
});

test("b50_line_breaks_of_two_units_keep_offsets_anchors_and_the_saved_text", () => {
  const made = (body) => {
    const view = editor("one\r\ntwo\r\nthree", { extensions: EditorState.lineSeparator.of("\r\n") });
    apply(view)(patch(body));
    return view.state.sliceDoc();
  };
  assert.equal(made({ kind: "text.splice", at: 10, delete: 5, insert: "3", expect: "three" }), "one\r\ntwo\r\n3");
  assert.equal(made({ kind: "text.replace", find: "two\r\nthree", replace: "2" }), "one\r\n2");
  assert.equal(made({ kind: "text.insert", anchor: "two", where: "after", text: "\r\nx" }), "one\r\ntwo\r\nx\r\nthree");
  assert.equal(made({ kind: "text.replace", find: "\r\ntwo", replace: "" }), "one\r\nthree");
  assert.throws(() => made({ kind: "text.splice", at: 4, delete: 0, insert: "x" }), refuses("handler_refused"));
  assert.throws(() => made({ kind: "text.splice", at: 0, delete: 4, insert: "x" }), refuses("handler_refused"));
});
