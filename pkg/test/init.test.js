// Loading the module: from servers that name its media type and from those that do not, or not at all.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { packagedModule } from "../dist/packaged.js";

const bytes = await readFile(new URL("../wasm/patchkeep_wasm_bg.wasm", import.meta.url));
let copies = 0;

/** A fresh copy of the loader, for the package's own module. */
async function loader() {
  const { loadEngine } = await import(`../dist/init.js?copy=${(copies += 1)}`);
  return () => loadEngine(packagedModule);
}

/** Loads the module by a fresh copy of the loader, from a server that answers like this. */
async function load(answer) {
  const loadEngine = await loader();
  return withServer(answer, loadEngine).then((engine) => ({ engine, loadEngine }));
}

async function withServer(answer, run) {
  const { fetch } = globalThis;
  const asked = [];
  globalThis.fetch = async (url) => {
    asked.push(String(url));
    return answer();
  };
  try {
    return await run();
  } finally {
    globalThis.fetch = fetch;
    assert.ok(asked.every((url) => url.endsWith("/wasm/patchkeep_wasm_bg.wasm")));
  }
}

const served = (type, body = bytes, status = 200) => () =>
  new Response(body, { status, headers: type ? { "content-type": type } : {} });

const fails = (code) => (error) => error.name === "PatchkeepError" && error.code === code;

for (const type of ["application/wasm", "application/wasm; charset=binary", "application/octet-stream", "text/html", undefined]) {
  test(`a module served as ${type} is loaded`, async () => {
    const { engine } = await load(served(type));
    assert.equal(typeof engine.openSession, "function");
  });
}

test("it is loaded once", async () => {
  const { engine, loadEngine } = await load(served("application/wasm"));
  assert.equal(await withServer(() => assert.fail("asked again"), loadEngine), engine);
});

test("a missing module, a broken connection and another file have codes", async () => {
  await assert.rejects(load(served("text/html", "not found", 404)), fails("wasm_unavailable"));
  await assert.rejects(load(() => { throw new TypeError("offline"); }), fails("wasm_unavailable"));
  await assert.rejects(load(served("text/html", "<!doctype html>")), fails("wasm_unsupported"));
  await assert.rejects(load(served("application/wasm", "<!doctype html>")), fails("wasm_unsupported"));
});

test("what failed once is tried again", async () => {
  const loadEngine = await loader();
  await assert.rejects(withServer(served("text/html", "", 503), loadEngine), fails("wasm_unavailable"));
  assert.ok(await withServer(served("application/wasm"), loadEngine));
});

test("an engine without WebAssembly is told", async () => {
  const { WebAssembly } = globalThis;
  delete globalThis.WebAssembly;
  try {
    await assert.rejects(load(() => assert.fail("nothing to load")), fails("wasm_unsupported"));
  } finally {
    globalThis.WebAssembly = WebAssembly;
  }
});

test("after a crash nothing is opened any more, and all who asked are told", async () => {
  const { crashed, loadEngine, whenCrashed } = await import(`../dist/init.js?copy=${(copies += 1)}`);
  const told = [];
  whenCrashed(() => told.push("one"));
  whenCrashed(() => told.push("other"))();
  crashed();
  crashed();
  assert.deepEqual(told, ["one"]);
  await assert.rejects(loadEngine(packagedModule), fails("crashed"));
});
