// A signal gives up opening, or closes the session: on the real module, with a journal in memory.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { openSession } from "../dist/index.js";

const bytes = await readFile(new URL("../wasm/patchkeep_wasm_bg.wasm", import.meta.url));
const { fetch, WebSocket } = globalThis;

before(() => {
  globalThis.fetch = async () => new Response(bytes, { headers: { "content-type": "application/wasm" } });
  globalThis.WebSocket = class {
    close() {}
    send() {}
  };
});

after(() => Object.assign(globalThis, { fetch, WebSocket }));

const options = (principal, signal) => ({
  principal,
  socket: { url: () => "ws://127.0.0.1/socket" },
  storage: { durability: "memory" },
  signal,
});

test("aborting while it opens rejects with the reason, and leaves no session behind", async () => {
  const controller = new AbortController();
  const opening = openSession(options("a/b", controller.signal));
  controller.abort(new Error("mine"));
  await assert.rejects(opening, /mine/);
  const next = await openSession(options("a/b"));
  await next.close();
});

test("aborting later closes the session", async () => {
  const controller = new AbortController();
  const session = await openSession(options("a/c", controller.signal));
  assert.equal(session.status, "live");
  controller.abort();
  await session.close();
  assert.equal(session.status, "closed");
});
