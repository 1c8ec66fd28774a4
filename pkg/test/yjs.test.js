// The Yjs adapter on real documents, and on replicas that hear of each other.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as Y from "yjs";
import { isRefusal } from "../dist/errors.js";
import { PATCH_ORIGIN, yjs } from "../dist/yjs.js";

const ID = "00000000-0000-4000-8000-000000000001";
const patch = (body, patchId = ID) => ({ patchId, body });
const append = { kind: "text.append", text: "!" };
const refuses = (reason) => (thrown) => isRefusal(thrown) && thrown.reason === reason;
const sync = (from, to) => Y.applyUpdate(to, Y.encodeStateAsUpdate(from));

function shared(content = "") {
  const doc = new Y.Doc();
  const text = doc.getText("t");
  text.insert(0, content);
  return { doc, text };
}

test("j06_the_id_is_written_in_the_transaction_of_the_edit", () => {
  const { doc, text } = shared("colour");
  const updates = [];
  doc.on("update", (update, origin) => updates.push({ update, origin }));
  const before = Y.encodeStateAsUpdate(doc);
  yjs(text).apply(patch({ kind: "text.replace", find: "colour", replace: "color" }));
  assert.deepEqual([text.toString(), updates.length, updates[0].origin], ["color", 1, PATCH_ORIGIN]);
  const replica = new Y.Doc();
  Y.applyUpdate(replica, before);
  Y.applyUpdate(replica, updates[0].update);
  assert.equal(replica.getText("t").toString(), "color");
  assert.ok(replica.getMap("patchkeep").has(ID));
});

test("j06_another_replica_answers_and_does_not_apply_again", () => {
  const one = shared("a");
  yjs(one.text).apply(patch(append));
  const other = new Y.Doc();
  sync(one.doc, other);
  const binding = yjs(other.getText("t"));
  assert.equal(binding.reconcile({ patchId: ID }), "present");
  binding.apply(patch(append));
  sync(other, one.doc);
  assert.deepEqual([other.getText("t").toString(), one.text.toString()], ["a!", "a!"]);
});

test("j07_absent_is_said_only_by_a_replica_that_holds_everything", () => {
  const { text } = shared("a");
  let isComplete = false;
  assert.equal(yjs(text).reconcile({ patchId: ID }), "unknown");
  const binding = yjs(text, { isComplete: () => isComplete });
  assert.equal(binding.reconcile({ patchId: ID }), "unknown");
  isComplete = true;
  assert.equal(binding.reconcile({ patchId: ID }), "absent");
  assert.equal(yjs(new Y.Text(), { isComplete: () => true }).reconcile({ patchId: ID }), "unknown");
});

test("a patch is one undo step, and undoing it does not take its id away", () => {
  const { doc, text } = shared("a");
  const undoManager = new Y.UndoManager(text, { trackedOrigins: new Set([null, PATCH_ORIGIN]) });
  const binding = yjs(text, { undoManager });
  doc.transact(() => text.insert(text.length, "b"));
  binding.apply(patch(append));
  doc.transact(() => text.insert(text.length, "c"));
  undoManager.undo();
  assert.equal(text.toString(), "ab!");
  undoManager.undo();
  assert.equal(text.toString(), "ab");
  assert.equal(binding.reconcile({ patchId: ID }), "present");
});

test("a cursor stays at its place in the text, also where the whole text is set", () => {
  const { doc, text } = shared("one two three");
  const cursor = Y.createRelativePositionFromTypeIndex(text, 9);
  yjs(text).apply(patch({ kind: "text.set", text: "zero one two three" }));
  assert.equal(Y.createAbsolutePositionFromRelativePosition(cursor, doc).index, 14);
});

test("what does not fit is refused and changes neither text nor ids", () => {
  const { doc, text } = shared("aXbX😀");
  const binding = yjs(text);
  const no = (body, reason) => assert.throws(() => binding.apply(patch(body)), refuses(reason));
  no({ kind: "text.replace", find: "X", replace: "" }, "anchor_ambiguous");
  no({ kind: "text.replace", find: "Y", replace: "" }, "anchor_not_found");
  no({ kind: "text.splice", at: 5, delete: 0, insert: "x" }, "out_of_range");
  no({ kind: "text.append", text: "\ud83d" }, "malformed");
  no({ kind: "json.merge", value: {} }, "malformed");
  text.insertEmbed(0, { image: "x" });
  no(append, "handler_refused");
  text.delete(0, 1);
  assert.deepEqual([text.toString(), doc.getMap("patchkeep").size], ["aXbX😀", 0]);
  assert.throws(() => yjs(new Y.Text()).apply(patch(append)), refuses("not_open"));
});

test("pairs, combining marks and CRLF reach another replica as they are", () => {
  const { doc, text } = shared("😀e\u0301\r\n");
  yjs(text).apply(patch({ kind: "text.set", text: "😁e\u0300\r\n\r\n" }));
  const replica = new Y.Doc();
  sync(doc, replica);
  assert.equal(replica.getText("t").toString(), "😁e\u0300\r\n\r\n");
});

test("b51_dollar_signs_are_literal", () => {
  const { text } = shared("log(1);");
  yjs(text).apply(patch({ kind: "text.replace", find: "log(1);", replace: "$& $$ $` $' $1" }));
  assert.equal(text.toString(), "$& $$ $` $' $1");
});
