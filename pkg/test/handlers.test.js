// Handlers and hooks: exactly one answer, whatever they do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { refuse } from "../dist/index.js";
import { INCARNATION, openFake, PATCH, task, wireRecord } from "../fixtures/fake-engine.js";

const [PENDING, APPLIED, WITH_RESULT, UNSENDABLE, REFUSED, THREW] = [0, 1, 2, 3, 4, 5];

async function answersOf(apply) {
  const { session, engine } = await openFake();
  await session.openDocument("d", { apply, baseSeq: 1 });
  engine.patch();
  const inTask = engine.asked("handlerAnswered");
  await task();
  return { inTask, all: engine.asked("handlerAnswered"), engine };
}

test("a handler sees the patch", async () => {
  let seen;
  const { engine } = await answersOf((patch) => void (seen = patch));
  assert.deepEqual({ ...seen, stillWanted: seen.stillWanted() }, {
    patchId: PATCH,
    doc: "d",
    incarnation: INCARNATION,
    delivery: 1,
    body: { kind: "text.append", text: "x" },
    bodyText: '{"kind":"text.append","text":"x"}',
    guarded: false,
    expiresAt: 9,
    stillWanted: true,
  });
  assert.deepEqual(engine.asked("handlerAnswered"), [[1, APPLIED]]);
});

test("a handler that returns at once is answered in the same task", async () => {
  assert.deepEqual((await answersOf(() => undefined)).inTask, [[1, APPLIED]]);
  assert.deepEqual((await answersOf(() => ({ n: 1 }))).inTask, [[1, WITH_RESULT, '{"n":1}']]);
  assert.deepEqual((await answersOf(() => null)).inTask, [[1, WITH_RESULT, "null"]]);
});

test("a promise is pending, then settled once", async () => {
  const { inTask, all } = await answersOf(async () => "done");
  assert.deepEqual(inTask, [[1, PENDING]]);
  assert.deepEqual(all, [[1, PENDING], [1, WITH_RESULT, '"done"']]);
  assert.deepEqual((await answersOf(async () => Promise.reject(refuse("busy")))).all[1], [1, REFUSED, "busy", undefined]);
  assert.deepEqual((await answersOf(async () => Promise.reject(new Error("no")))).all[1], [1, THREW, "Error: no"]);
});

test("J8 a result that cannot be sent is no failure", async () => {
  const cyclic = {};
  cyclic.self = cyclic;
  const hostile = { toJSON: () => { throw new Error("no"); } };
  for (const result of [cyclic, 1n, hostile, () => undefined, Symbol("x")]) {
    assert.deepEqual((await answersOf(() => result)).all, [[1, UNSENDABLE]]);
  }
});

test("J13 a refusal is told from any other exception", async () => {
  assert.deepEqual((await answersOf(() => { throw refuse("anchor_not_found"); })).all, [[1, REFUSED, "anchor_not_found", undefined]]);
  assert.deepEqual((await answersOf(() => { throw refuse("mine", "why"); })).all, [[1, REFUSED, "mine", "why"]]);
  assert.deepEqual((await answersOf(() => { throw refuse("a\ud800b"); })).all, [[1, REFUSED, "a\ufffdb", undefined]]);
  for (const thrown of [new TypeError("no"), "text", undefined, null, 0]) {
    assert.deepEqual((await answersOf(() => { throw thrown; })).all, [[1, THREW, String(thrown)]]);
  }
  const nameless = Object.create(null);
  assert.equal((await answersOf(() => { throw nameless; })).all[0][1], THREW);
});

test("a refusal of another copy of the package is one", async () => {
  const other = await import(`../dist/errors.js?copy`);
  assert.notEqual(other.refuse, refuse);
  assert.deepEqual((await answersOf(() => { throw other.refuse("busy"); })).all, [[1, REFUSED, "busy", undefined]]);
});

test("a `then` that throws is an exception of the handler", async () => {
  const hostile = { get then() { throw new Error("no"); } };
  assert.deepEqual((await answersOf(() => hostile)).all, [[1, THREW, "Error: no"]]);
});

test("a handler is called as what it is, and sees its own document alone", async () => {
  const { session, engine } = await openFake();
  await session.openDocument("other", { apply: () => assert.fail("not its patch"), baseSeq: 1 });
  engine.patch();
  assert.deepEqual(engine.asked("handlerAnswered"), [[1, REFUSED, "not_open", undefined]]);
});

test("J7 reconcile answers, or cannot tell", async () => {
  for (const [hook, expected] of [
    [() => "present", [[7, 1]]],
    [() => "absent", [[7, 2]]],
    [() => "unknown", [[7, 3]]],
    [() => "perhaps", [[7, 3]]],
    [() => { throw new Error("no"); }, [[7, 3]]],
    [async () => "present", [[7, 0], [7, 1]]],
    [async () => { throw new Error("no"); }, [[7, 0], [7, 3]]],
  ]) {
    const { session, engine } = await openFake();
    let asked;
    const reconcile = (record) => {
      asked = record;
      return hook(record);
    };
    await session.openDocument("d", { apply: () => undefined, baseSeq: 1, reconcile });
    engine.sink.reconcile(7, INCARNATION, JSON.stringify(wireRecord({ current: false })));
    await task();
    assert.deepEqual(engine.asked("reconcileAnswered"), expected);
    assert.equal(asked.patchId, PATCH);
  }
});

test("a host that cannot tell may have unconfirmed edits", async () => {
  for (const [unconfirmedEdits, expected] of [
    [undefined, true],
    [() => true, true],
    [() => false, false],
    [() => undefined, true],
  ]) {
    const { session, engine } = await openFake();
    const options = { apply: () => undefined, baseSeq: 1 };
    await session.openDocument("d", unconfirmedEdits ? { ...options, unconfirmedEdits } : options);
    assert.equal(engine.sink.unconfirmedEdits("d"), expected);
    assert.equal(engine.sink.unconfirmedEdits("closed"), true);
  }
});
