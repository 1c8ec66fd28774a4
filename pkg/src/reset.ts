/** Deleting journals that are damaged, once what can be read of them is read out (J11). */

import { PatchkeepError } from "./errors.js";

/** Deletes the database of this name, and resolves to its contents as lines of JSON: a header, then each entry. */
export async function resetDatabase(name: string, timeoutMs: number): Promise<string> {
  const lines = await contents(name, timeoutMs).catch((error: unknown) => [{ unreadable: String(error) }]);
  await settled(indexedDB.deleteDatabase(name), timeoutMs);
  const header = { patchkeep: "damaged journal", database: name };
  return [header, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** Every entry, whatever shape the database has. A store that cannot be read does not hide the others. */
async function contents(name: string, timeoutMs: number): Promise<readonly object[]> {
  const database = await settled(indexedDB.open(name), timeoutMs);
  try {
    const lines: object[] = [];
    for (const store of Array.from(database.objectStoreNames)) {
      try {
        const within = database.transaction(store).objectStore(store);
        const [keys, values] = await Promise.all([settled(within.getAllKeys(), timeoutMs), settled(within.getAll(), timeoutMs)]);
        keys.forEach((key, at) => lines.push({ store, key, value: values[at] as unknown }));
      } catch (error) {
        lines.push({ store, unreadable: String(error) });
      }
    }
    return lines;
  } finally {
    database.close();
  }
}

/** What a request comes to, within a time; one that opens a database too late closes it again. */
function settled<T>(request: IDBRequest<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      request.onsuccess = () => request.result instanceof IDBDatabase && request.result.close();
      reject(new PatchkeepError("storage_blocked"));
    }, timeoutMs);
    request.onsuccess = () => (clearTimeout(timer), resolve(request.result));
    request.onerror = () => (clearTimeout(timer), reject(request.error ?? new PatchkeepError("internal")));
  });
}
