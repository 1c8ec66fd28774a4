// Wrong arguments are named before anything is loaded or changed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openSession, PatchkeepError, refuse } from "../dist/index.js";
import { openFake } from "../fixtures/fake-engine.js";

const names = (argument) => (error) =>
  error instanceof PatchkeepError && error.code === "invalid_argument" && error.detail === argument && !error.retryable;

const good = { principal: "ws/user", socket: { url: () => "ws://host" } };

for (const [argument, options] of [
  ["principal", undefined],
  ["principal", {}],
  ["principal", { ...good, principal: "" }],
  ["principal", { ...good, principal: "é".repeat(129) }],
  ["principal", { ...good, principal: "\ud800" }],
  ["socket.url", { ...good, socket: undefined }],
  ["socket.url", { ...good, socket: { url: "ws://host" } }],
  ["socket.binaryType", { ...good, socket: { ...good.socket, binaryType: "text" } }],
  ["http.baseUrl", { ...good, http: {} }],
  ["http.headers", { ...good, http: { baseUrl: "", headers: {} } }],
  ["storage.durability", { ...good, storage: { durability: "firm" } }],
  ["handlerTimeoutMs", { ...good, handlerTimeoutMs: 0 }],
  ["handlerTimeoutMs", { ...good, handlerTimeoutMs: NaN }],
  ["signal", { ...good, signal: {} }],
]) {
  test(`openSession names ${argument}: ${JSON.stringify(options)}`, () => assert.rejects(openSession(options), names(argument)));
}

test("a signal that is aborted already gives its reason", () =>
  assert.rejects(openSession({ ...good, signal: AbortSignal.abort(new Error("mine")) }), /mine/));

const document = { apply: () => undefined, baseSeq: 0 };

for (const [argument, id, options] of [
  ["id", "", document],
  ["id", 5, document],
  ["id", "\ud800", document],
  ["apply", "d", undefined],
  ["apply", "d", {}],
  ["baseSeq", "d", { apply: () => undefined }],
  ["baseSeq", "d", { ...document, baseSeq: 1.5 }],
  ["baseSeq", "d", { ...document, baseSeq: 2 ** 53 }],
  ["reconcile", "d", { ...document, reconcile: "unknown" }],
  ["unconfirmedEdits", "d", { ...document, unconfirmedEdits: true }],
  ["homed", "d", { ...document, homed: "here" }],
  ["restored", "d", { ...document, restored: 1 }],
  ["marksInDocument", "d", { ...document, marksInDocument: "yes" }],
]) {
  test(`openDocument names ${argument}: ${JSON.stringify([id, options])}`, async () => {
    const { session, engine } = await openFake();
    await assert.rejects(session.openDocument(id, options), names(argument));
    assert.equal(engine.calls.length, 0);
  });
}

test("replaceContent names its arguments", async () => {
  const { session } = await openFake();
  const doc = await session.openDocument("d", document);
  for (const [argument, options] of [
    ["baseSeq", undefined],
    ["baseSeq", {}],
    ["carried", { baseSeq: 1, carried: "x" }],
    ["carried", { baseSeq: 1, carried: ["x y"] }],
    ["homed", { baseSeq: 1, homed: "there" }],
  ]) {
    assert.throws(() => doc.replaceContent(options), names(argument));
  }
});

test("what the module throws becomes the package's error", async () => {
  const { session, engine } = await openFake();
  for (const [thrown, code, detail] of [
    ["already_open", "already_open", undefined],
    ["invalid_argument id", "invalid_argument", "id"],
    [new Error("odd"), "internal", "odd"],
  ]) {
    engine.openDocument = () => { throw thrown; };
    await assert.rejects(session.openDocument("d", document), (error) => error.code === code && error.detail === detail);
  }
});

test("a refusal is an error with a reason", () => {
  const refusal = refuse("anchor_not_found", "there is none");
  assert.ok(refusal instanceof Error);
  assert.equal(refusal.reason, "anchor_not_found");
  assert.equal(refusal.message, "anchor_not_found: there is none");
});
