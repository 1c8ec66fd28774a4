// Prints one line a file: path, raw bytes, bytes after gzip, bytes after brotli, each at its strongest setting.
import { readFileSync } from "node:fs";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

for (const path of process.argv.slice(2)) {
  const raw = readFileSync(path);
  const gzip = gzipSync(raw, { level: 9 });
  const brotli = brotliCompressSync(raw, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: raw.length,
    },
  });
  console.log([raw.length, gzip.length, brotli.length, path].join("\t"));
}
