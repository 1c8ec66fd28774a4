// Sessions of one principal, and copies of the package, share one engine (T2): on the real module, with a journal in memory.
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { openSession } from "../dist/index.js";

const bytes = await readFile(new URL("../wasm/patchkeep_wasm_bg.wasm", import.meta.url));
const { fetch, WebSocket } = globalThis;
const sockets = [];

before(() => {
  globalThis.fetch = async () => new Response(bytes, { headers: { "content-type": "application/wasm" } });
  globalThis.WebSocket = class {
    constructor(url) {
      sockets.push(url);
    }
    close() {}
    send() {}
  };
});

after(() => Object.assign(globalThis, { fetch, WebSocket }));

const options = (principal, url = "first") => ({
  principal,
  socket: { url: () => `ws://127.0.0.1/${url}` },
  storage: { durability: "memory" },
});
const document = { baseSeq: 1, apply: () => undefined };
const task = () => new Promise((resolve) => setTimeout(resolve));

test("t02 two sessions of a principal are one tab with one socket", async () => {
  const [first, second] = await Promise.all([openSession(options("t/a")), openSession(options("t/a", "second"))]);
  const other = await openSession(options("t/b", "other"));
  await task();
  assert.deepEqual([second.tabId, second.epoch, second.contextId], [first.tabId, first.epoch, first.contextId]);
  assert.notEqual(other.tabId, first.tabId);
  assert.deepEqual(sockets.splice(0), ["ws://127.0.0.1/first", "ws://127.0.0.1/other"]);

  await first.openDocument("d", document);
  await assert.rejects(second.openDocument("d", document), { code: "already_open" });
  const heard = [];
  for (const type of ["statuschange", "connectionchange"]) {
    first.addEventListener(type, ({ detail }) => heard.push(detail));
  }
  await first.close();
  assert.deepEqual(heard, [{ state: "ended" }, "closed"]);
  assert.deepEqual([first.status, second.status], ["closed", "live"]);
  await assert.rejects(first.openDocument("e", document), { code: "closed" });
  const taken = await second.openDocument("d", document);
  assert.equal(typeof taken.incarnation, "string", "what the one left behind is free for the other");

  second.reconnect();
  await task();
  await Promise.all([second.close(), other.close()]);
  assert.equal(second.status, "closed");
});

test("t02 whoever opens while the last one closes gets the same tab at a higher epoch", async () => {
  const first = await openSession(options("t/c"));
  const { tabId, epoch } = first;
  const closing = first.close();
  const second = await openSession(options("t/c"));
  assert.deepEqual([second.tabId, second.epoch], [tabId, epoch + 1]);
  await Promise.all([closing, second.close()]);
});

test("t02 two copies of the package are one tab", async () => {
  const folder = await mkdtemp(join(tmpdir(), "patchkeep-copy-"));
  try {
    for (const part of ["dist", "wasm", "package.json"]) {
      await cp(fileURLToPath(new URL(`../${part}`, import.meta.url)), join(folder, part), { recursive: true });
    }
    const copy = await import(pathToFileURL(join(folder, "dist/index.js")).href);
    assert.notEqual(copy.openSession, openSession);
    const first = await openSession(options("t/d"));
    const second = await copy.openSession(options("t/d"));
    assert.equal(second.tabId, first.tabId);
    const opened = await second.openDocument("d", document);
    await assert.rejects(first.openDocument("d", document), { code: "already_open" });
    await first.close();
    assert.deepEqual([first.status, second.status], ["closed", "live"]);
    opened.close();
    assert.deepEqual([(await second.openDocument("d", document)).id, second.records()], ["d", []]);
    await second.close();
    assert.equal(second.status, "closed");
  } finally {
    await rm(folder, { recursive: true });
  }
});
