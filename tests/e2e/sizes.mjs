// What a page that uses the package loads: the module, and the package's JavaScript bundled and minified as a page's own
// build does it. Run in www/, whose Vite brings the bundler. Prints JSON: name → [bytes, gzip, brotli].
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const page = createRequire(join(process.cwd(), "package.json"));
const vite = createRequire(page.resolve("vite"));
const { rolldown } = await import(pathToFileURL(vite.resolve("rolldown")).href);

const bundle = await rolldown({ input: resolve("../pkg/dist/index.js"), platform: "browser", logLevel: "silent" });
const { output } = await bundle.generate({ format: "es", minify: true });
await bundle.close();

const parts = {
  "WebAssembly": readFileSync("../pkg/wasm/patchkeep_wasm_bg.wasm"),
  "JavaScript": Buffer.from(output.map((chunk) => chunk.code ?? "").join("")),
};
const brotli = (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length;
const sizes = Object.entries(parts).map(([name, bytes]) => [name, [bytes.length, gzipSync(bytes, { level: 9 }).length, brotli(bytes)]]);
console.log(JSON.stringify(Object.fromEntries(sizes)));
