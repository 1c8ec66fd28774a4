// The entry without a module of its own, and what importing any entry does: nothing (B47).
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import * as main from "patchkeep";
import * as slim from "patchkeep/slim";

const options = { principal: "ws/slim", socket: { url: () => new Promise(() => undefined) } };
const fails = (code, detail) => (error) => error.code === code && (detail === undefined || error.detail === detail);

test("b47_importing_every_entry_on_a_server_fetches_and_touches_nothing", async () => {
  const { exports } = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8"));
  const { fetch } = globalThis;
  globalThis.fetch = () => assert.fail("an import fetched something");
  try {
    for (const entry of Object.keys(exports).filter((name) => !name.includes(".", 1))) {
      await import(`patchkeep/${entry}`.replace("/.", ""));
    }
    assert.equal(typeof globalThis.window, "undefined");
  } finally {
    globalThis.fetch = fetch;
  }
});

test("both entries share one surface", () => {
  const names = (entry) => Object.keys(entry).filter((name) => name !== "init").sort();
  assert.deepEqual(names(slim), names(main));
  assert.equal(slim.PatchkeepError, main.PatchkeepError);
});

test("only the entry that ships the module names its file", async () => {
  const text = async (name) => readFile(new URL(`../dist/${name}.js`, import.meta.url), "utf8");
  for (const name of ["slim", "session", "surface", "init"]) {
    assert.doesNotMatch(await text(name), /import\.meta|_bg\.wasm/, name);
  }
});

test("it wants init first, and names what is no module; a load that failed may be tried again", async () => {
  await assert.rejects(slim.openSession(options), fails("not_initialized"));
  await assert.rejects(slim.openSession({}), fails("invalid_argument", "principal"));
  for (const wrong of [undefined, 3, {}, []]) {
    await assert.rejects(slim.init(wrong), fails("invalid_argument", "source"));
  }
  await assert.rejects(slim.init(new Uint8Array([1, 2])), fails("wasm_unsupported"));
  await assert.rejects(slim.openSession(options), fails("not_initialized"));
  const bytes = await readFile(new URL("../wasm/patchkeep_wasm_bg.wasm", import.meta.url));
  await slim.init(bytes);
  await slim.init("http://127.0.0.1/never-asked");
});
