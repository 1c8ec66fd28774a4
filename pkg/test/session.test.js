// What the host reads and hears.
import assert from "node:assert/strict";
import { test } from "node:test";
import { PatchkeepError } from "../dist/index.js";
import { INCARNATION, JOURNAL, openFake, PATCH, task, wireRecord } from "../fixtures/fake-engine.js";

const heard = (session, ...types) => {
  const events = [];
  for (const type of types) {
    session.addEventListener(type, (event) => events.push([type, event.detail]));
  }
  return events;
};

test("what the module says is what is read", async () => {
  const { session, engine } = await openFake({ storage: { durability: "relaxed" }, handlerTimeoutMs: 5 });
  assert.deepEqual(engine.given, ["ws/user", "relaxed", 5_000, 5, "blob"]);
  const { tabId, epoch, contextId, journalId, identity, durability, status, connection } = session;
  assert.deepEqual(
    { tabId, epoch, contextId, journalId, identity, durability, status, connection },
    {
      tabId: "tab",
      epoch: 3,
      contextId: "context",
      journalId: JOURNAL,
      identity: "strong",
      durability: "strict",
      status: "live",
      connection: { state: "connecting" },
    },
  );
});

test("notices become state and events", async () => {
  const { session, engine } = await openFake();
  await task();
  const events = heard(session, "connectionchange", "statuschange", "durabilitychange", "recordchange", "recordgone", "opened", "docchanged", "problem", "binary");
  const { sink } = engine;
  sink.notice("connection", '{"state":"waiting","until_ms":7}');
  sink.notice("durability", `{"durability":"memory","journal_id":"j","fault":"storage_full"}`);
  sink.notice("record", JSON.stringify(wireRecord({ state: "refused", reason: "expired", settled_at: 6, result: { n: 1 } })));
  sink.notice("gone", `{"doc":"d","patch_id":"${PATCH}"}`);
  sink.notice("opened", `{"doc":"d","incarnation":"${INCARNATION}","seq":4}`);
  sink.notice("changed", '{"doc":"d","seq":5}');
  sink.notice("problem", `{"code":"handler_threw","detail":"no","patch_id":"${PATCH}"}`);
  sink.notice("future", "{}");
  const data = new Blob(["x"]);
  sink.binary(data);
  sink.notice("status", '"fenced"');
  const record = {
    patchId: PATCH,
    doc: "d",
    state: "refused",
    incarnation: INCARNATION,
    current: true,
    leftBehind: false,
    delivery: 1,
    replays: 0,
    kept: false,
    flushed: false,
    receivedAt: 5,
    reason: "expired",
    settledAt: 6,
    result: { n: 1 },
  };
  assert.deepEqual(events, [
    ["connectionchange", { state: "waiting", untilMs: 7 }],
    ["durabilitychange", { durability: "memory", journalId: "j", fault: "storage_full" }],
    ["recordchange", record],
    ["recordgone", { doc: "d", patchId: PATCH }],
    ["opened", { doc: "d", incarnation: INCARNATION, seq: 4 }],
    ["docchanged", { doc: "d", seq: 5 }],
    ["problem", { code: "handler_threw", detail: "no", patchId: PATCH }],
    ["binary", data],
    ["statuschange", "fenced"],
  ]);
  assert.deepEqual([session.status, session.durability, session.journalId, session.getSnapshot().fault], ["fenced", "memory", "j", "storage_full"]);
});

test("J11 what happened while the session opened is heard by whoever listens after it", async () => {
  const { session } = await openFake({}, {
    beforeOpen: (sink) => sink.notice("problem", '{"code":"corrupt_record","detail":"x"}'),
  });
  const events = heard(session, "problem");
  await task();
  assert.deepEqual(events, [["problem", { code: "corrupt_record", detail: "x" }]]);
});

test("records are those of the journal, then as they change", async () => {
  const { session, engine } = await openFake({}, { records_: [wireRecord({ current: false })] });
  assert.equal(session.records().length, 1);
  const before = session.getSnapshot();
  assert.equal(session.getSnapshot(), before);
  engine.sink.notice("record", JSON.stringify(wireRecord({ flushed: true })));
  assert.notEqual(session.getSnapshot(), before);
  assert.equal(session.records()[0].flushed, true);
  assert.equal(before.records[0].flushed, false, "what was read stays as it was");
});

test("`current` follows what is open", async () => {
  const { session } = await openFake({}, { records_: [wireRecord({ current: false })] });
  const doc = await session.openDocument("d", { apply: () => undefined, baseSeq: 1 });
  assert.equal(session.records()[0].current, true);
  doc.replaceContent({ baseSeq: 2 });
  assert.equal(session.records()[0].current, false);
});

test("subscribers hear once per burst, and not after they left", async () => {
  const { session, engine } = await openFake();
  let calls = 0;
  const leave = session.subscribe(() => (calls += 1));
  engine.sink.notice("connection", '{"state":"live"}');
  engine.sink.notice("connection", '{"state":"connecting"}');
  await task();
  assert.equal(calls, 1);
  leave();
  engine.sink.notice("connection", '{"state":"live"}');
  await task();
  assert.equal(calls, 1);
});

test("records can be iterated as they change", async () => {
  const { session, engine } = await openFake();
  await task();
  const seen = [];
  const reading = (async () => {
    for await (const record of session.recordChanges()) {
      seen.push(record.state);
    }
  })();
  await task();
  engine.sink.notice("record", JSON.stringify(wireRecord({ state: "applying" })));
  engine.sink.notice("record", JSON.stringify(wireRecord({ state: "applied" })));
  await task();
  await session.close();
  await reading;
  assert.deepEqual(seen, ["applied"]);
});

test("close closes once, is awaited by all, and lets waiters go", async () => {
  const { session, engine } = await openFake();
  await Promise.all([session.close(), session.close(), session[Symbol.asyncDispose]?.()]);
  assert.equal(engine.asked("close").length, 1);
  assert.equal(session.status, "closed");
});

test("a trap makes the session crashed, and says so once", async () => {
  const { session, engine } = await openFake();
  const doc = await session.openDocument("d", { apply: () => undefined, baseSeq: 1 });
  await task();
  const events = heard(session, "crashed", "statuschange");
  engine.marks = ["trap"];
  assert.throws(() => doc.mark(), PatchkeepError);
  assert.throws(() => doc.mark(), (error) => error.code === "crashed");
  assert.deepEqual(events, [["statuschange", "crashed"], ["crashed", undefined]].map(([type, detail]) => [type, detail ?? null]));
  assert.equal(session.status, "crashed");
  doc.close();
  await session.close();
});
