// @ts-check
// One request and its whole answer. The platform's objects stay on this side: in the module they would cost ten times
// the bytes.

/**
 * Sends a save. Redirects are not followed. Resolves to the status (302 for any redirect), a space, the type of the
 * body, a line feed and the body, or to a space and what went wrong where there was no whole answer.
 *
 * @param {string} url
 * @param {string} principal
 * @param {Headers} headers
 * @param {string} body
 * @returns {Promise<string>}
 */
export async function put(url, principal, headers, body) {
  try {
    headers.set("Content-Type", "application/json");
    // T6. A header holds no other characters than these; the rest, and `%` itself, is percent-encoded.
    headers.set("Patchkeep-Principal", principal.replace(/[^!-$&-~]/gu, encodeURIComponent));
    /** @type {RequestInit} */
    const init = { method: "PUT", headers, body, redirect: "manual" };
    // Engines without it have only their own patience.
    if (AbortSignal.timeout) {
      init.signal = AbortSignal.timeout(TIMEOUT_MS);
    }
    const response = await fetch(url, init);
    // What `redirect: "manual"` makes of a redirect has no status and no body.
    const type = response.headers.get("Content-Type") ?? "";
    return response.status === 0 ? "302 \n" : `${response.status} ${type}\n${await text(response)}`;
  } catch (error) {
    return ` ${error instanceof Error ? error.message : ""}`;
  }
}

/**
 * The body's first MiB (K12): more than any answer of the protocol. The longest is a conflict with the 10,000 ids in
 * each of its two lists that a save may name (W3).
 *
 * @param {Response} response
 */
async function text(response) {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let read = "";
  for (let left = MAX_BODY_BYTES; reader; ) {
    const { value } = await reader.read();
    if (value === undefined) {
      break;
    }
    read += decoder.decode(value.subarray(0, left), { stream: true });
    left -= value.length;
    if (left <= 0) {
      // Nobody waits for what becomes of it.
      reader.cancel().catch(() => undefined);
      break;
    }
  }
  return read + decoder.decode();
}

/** An answer that takes longer is counted as lost. */
const TIMEOUT_MS = 60_000;
const MAX_BODY_BYTES = 1024 * 1024;
