// Marks and saves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { INCARNATION, openFake, PATCH, task } from "../fixtures/fake-engine.js";

const http = { baseUrl: "https://host/api", headers: () => ({ authorization: "Bearer x" }) };
const options = { apply: () => undefined, baseSeq: 1 };

test("options cross in their order", async () => {
  const { session, engine } = await openFake();
  await session.openDocument("d", { ...options, homed: "server", restored: true, reconcile: () => "unknown", marksInDocument: true, carried: [PATCH] });
  await session.openDocument("e", options);
  assert.deepEqual(engine.asked("openDocument"), [
    ["d", 1, true, true, true, true, PATCH],
    ["e", 1, false, false, false, false, undefined],
  ]);
});

test("J6 the host gets a document once an older draft's word is taken back", async () => {
  const { session, engine } = await openFake({}, { takingBack: 1 });
  let isOpen = false;
  const opening = session.openDocument("d", options).then((document) => ((isOpen = true), document));
  engine.sink.notice("settled", '"other"');
  await task();
  assert.equal(isOpen, false);
  engine.takingBack = 0;
  engine.sink.notice("settled", '"d"');
  assert.equal((await opening).id, "d");
  // A session that ends takes nothing back any more.
  engine.takingBack = 1;
  const never = session.openDocument("e", options);
  await session.close();
  assert.equal((await never).id, "e");
});

test("replaced content keeps hooks and home, and names what it carries", async () => {
  const { session, engine } = await openFake();
  const doc = await session.openDocument("d", { ...options, homed: "server", reconcile: () => "unknown" });
  const incarnation = doc.replaceContent({ baseSeq: 7, carried: [PATCH] });
  assert.deepEqual(engine.asked("replaceContent"), [[7, true, false, true, false, PATCH]]);
  assert.equal(doc.incarnation, incarnation);
  assert.notEqual(incarnation, INCARNATION);
  // Silence about what it carries is not an empty list (R7).
  doc.replaceContent({ baseSeq: 8 });
  doc.replaceContent({ baseSeq: 9, carried: [] });
  assert.deepEqual(engine.asked("replaceContent").slice(1).map((asked) => asked.at(-1)), [undefined, ""]);
});

test("a mark is read, and only a mark of this document is taken", async () => {
  const { session, engine } = await openFake();
  const doc = await session.openDocument("d", options);
  const other = await session.openDocument("e", options);
  engine.marks = [`4 2 ${PATCH} ? ${INCARNATION}`];
  const mark = doc.mark();
  assert.deepEqual({ ...mark }, { doc: "d", incarnation: INCARNATION, generation: 2, baseSeq: 4, patchIds: [PATCH], inDoubt: [INCARNATION] });
  doc.kept(mark);
  doc.flushed(mark, { seq: 5 });
  assert.deepEqual(engine.asked("kept"), [[`4 2 ${PATCH} ? ${INCARNATION}`]]);
  assert.deepEqual(engine.asked("flushed"), [[`4 2 ${PATCH} ? ${INCARNATION}`, 5]]);
  for (const wrong of [undefined, null, {}, { ...mark }]) {
    assert.throws(() => doc.kept(wrong), (error) => error.code === "invalid_argument" && error.detail === "mark");
  }
  assert.throws(() => other.kept(mark), (error) => error.detail === "mark");
  assert.throws(() => doc.flushed(mark, { seq: -1 }), (error) => error.detail === "seq");
});

test("a save asks for headers each time and sends what it was given", async () => {
  const { session, engine } = await openFake({ http });
  const doc = await session.openDocument("d", options);
  assert.deepEqual(await doc.save(() => "text"), { status: "saved", seq: 2 });
  const [mark, text, baseUrl, headers] = engine.asked("save")[0];
  assert.deepEqual([mark, text, baseUrl, headers.get("authorization")], [`1 1 ${PATCH} ?`, "text", "https://host/api", "Bearer x"]);
});

test("outcomes are values", async () => {
  for (const [wire, expected] of [
    [
      '{"status":"conflict","seq":3,"patch_ids":["p"],"in_doubt":["q"]}',
      { status: "conflict", seq: 3, patchIds: ["p"], inDoubt: ["q"] },
    ],
    ['{"status":"fenced"}', { status: "fenced" }],
    ['{"status":"refused","http_status":403,"code":"no"}', { status: "refused", httpStatus: 403, code: "no" }],
    ['{"status":"refused","http_status":403}', { status: "refused", httpStatus: 403 }],
    ['{"status":"unknown","detail":"x"}', { status: "unknown", detail: "x" }],
  ]) {
    const { session } = await openFake({ http }, { saveOutcome: wire });
    const doc = await session.openDocument("d", options);
    assert.deepEqual(await doc.save(() => ""), expected);
  }
});

test("W1 a save waits while a handler runs, and takes mark and text in one task", async () => {
  const { session, engine } = await openFake({ http });
  const doc = await session.openDocument("d", options);
  engine.marks = ["handler_running", "handler_running"];
  let taken = 0;
  const saved = doc.save(() => String((taken += 1)));
  await task();
  assert.equal(engine.asked("save").length, 0);
  engine.sink.notice("settled", '"d"');
  await task();
  assert.equal(engine.asked("save").length, 0, "the next handler runs already");
  engine.sink.notice("settled", '"d"');
  await saved;
  assert.equal(taken, 1);
});

test("W1 a patch that comes in while the text is taken makes it be taken again", async () => {
  const { session, engine } = await openFake({ http });
  const doc = await session.openDocument("d", options);
  engine.marks = ["1 1 ?", `1 1 ${PATCH} ?`, `1 1 ${PATCH} ?`, `1 1 ${PATCH} ?`];
  let taken = 0;
  await doc.save(() => String((taken += 1)));
  assert.equal(engine.asked("save")[0][1], "2");
});

test("one save at a time, and a failed one does not block the next", async () => {
  const { session, engine } = await openFake({ http });
  const doc = await session.openDocument("d", options);
  let answer;
  engine.save = () => new Promise((resolve) => (answer = resolve));
  const first = doc.save(() => "1");
  const second = doc.save(() => { throw new Error("mine"); });
  const third = doc.save(() => "3");
  await task();
  assert.equal(engine.asked("save").length, 1);
  answer('{"status":"saved","seq":2}');
  await first;
  await assert.rejects(second, /mine/);
  await task();
  answer('{"status":"saved","seq":3}');
  assert.deepEqual(await third, { status: "saved", seq: 3 });
});

test("wrong arguments of a save are named, and nothing is sent", async () => {
  const { session, engine } = await openFake({ http });
  const doc = await session.openDocument("d", options);
  for (const wrong of [undefined, "text", () => 5, () => "\ud800"]) {
    await assert.rejects(doc.save(wrong), (error) => error.code === "invalid_argument" && error.detail === "getText");
  }
  const without = await (await openFake()).session.openDocument("d", options);
  await assert.rejects(without.save(() => ""), (error) => error.detail === "http");
  assert.equal(engine.asked("save").length, 0);
});

test("closing twice is nothing", async () => {
  const { session, engine } = await openFake();
  const doc = await session.openDocument("d", options);
  doc.close();
  engine.closeDocument = () => { throw "not_open"; };
  doc.close();
});
