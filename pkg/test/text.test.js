// The text bodies of §10: the same cases as the core's own planner.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { isRefusal } from "../dist/errors.js";
import { planTextEdit } from "../dist/index.js";
import { isWellFormed } from "../dist/text.js";

const cases = JSON.parse(readFileSync(new URL("../../tests/vectors/edits.json", import.meta.url), "utf8"));

for (const [n, { text, body, expect }] of cases.entries()) {
  test(`edits.json ${n}: ${JSON.stringify(body)}`, () => {
    if ("reason" in expect) {
      assert.throws(() => planTextEdit(text, body), (thrown) => isRefusal(thrown) && thrown.reason === expect.reason);
    } else {
      const plan = planTextEdit(text, body);
      assert.equal(text.slice(0, plan.at) + plan.insert + text.slice(plan.at + plan.delete), expect.text);
    }
  });
}

test("text with half a surrogate pair is malformed", () => {
  for (const body of [
    { kind: "text.append", text: "\ud83d" },
    { kind: "text.replace", find: "\ude00", replace: "x" },
    { kind: "text.set", text: "a\ude00" },
  ]) {
    assert.throws(() => planTextEdit("😀", body), (thrown) => isRefusal(thrown) && thrown.reason === "malformed");
  }
});

test("inherited properties are no fields", () => {
  const body = Object.create({ kind: "text.append", text: "x" });
  assert.throws(() => planTextEdit("", body), isRefusal);
});

test("well-formedness, with and without the engine's help", () => {
  const { isWellFormed: native } = String.prototype;
  for (const without of [false, true]) {
    if (without) {
      delete String.prototype.isWellFormed;
    }
    assert.deepEqual(["", "a", "😀", "\ud83d", "\ude00", "a\ude00\ud83d"].map(isWellFormed), [true, true, true, false, false, false]);
  }
  Object.defineProperty(String.prototype, "isWellFormed", { value: native, configurable: true, writable: true });
});
