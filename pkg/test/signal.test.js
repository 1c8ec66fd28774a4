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

/** Opens as soon as the session that nobody wanted any more is closed. */
async function whenFree(open) {
  for (;;) {
    try {
      return await open();
    } catch (error) {
      assert.equal(error.code, "session_exists");
      await new Promise(setImmediate);
    }
  }
}

test("aborting while it opens rejects with the reason, and leaves no session behind", async () => {
  const controller = new AbortController();
  const opening = openSession(options("a/b", controller.signal));
  controller.abort(new Error("mine"));
  await assert.rejects(opening, /mine/);
  const next = await whenFree(() => openSession(options("a/b")));
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

test("a second session of a principal is told, and may open once the first is closed", async () => {
  const first = await openSession(options("a/d"));
  await assert.rejects(openSession(options("a/d")), (error) => error.code === "session_exists" && error.retryable);
  const other = await openSession(options("a/e"));
  await first.close();
  const second = await openSession(options("a/d"));
  assert.equal(second.tabId, first.tabId);
  assert.equal(second.epoch, first.epoch + 1);
  await Promise.all([second.close(), other.close()]);
});
