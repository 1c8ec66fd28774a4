/**
 * Marks in the host's own database (J6): a content and the patches it holds are written by one transaction, so that
 * after a crash either both are there or neither is.
 *
 * ```ts
 * request.onupgradeneeded = () => upgrade(request.result);
 * // to keep:     const mark = doc.mark();
 * //              const tx = db.transaction(["drafts", "patchkeep"], "readwrite");
 * //              tx.objectStore("drafts").put(editor.text, id);
 * //              doc.putIn(tx, mark);
 * // to restore:  const tx = db.transaction(["drafts", "patchkeep"]);
 * //              const carried = await keptIn(tx, id);
 * ```
 */

import type { Mark } from "./document.js";
import { PatchkeepError } from "./errors.js";
import type { PatchId } from "./types.js";

/** The store in the host's database: by document, the ids of the patches that the content written with it holds. */
const STORE = "patchkeep";

/** Makes the store that `putIn` writes to. Call it while the database is upgraded; one that is there stays as it is. */
export function upgrade(database: IDBDatabase): void {
  if (!database.objectStoreNames.contains(STORE)) {
    database.createObjectStore(STORE);
  }
}

/** The patches that the content holds which was written with them; read it in the transaction that reads the content. */
export function keptIn(transaction: IDBTransaction, doc: string): Promise<readonly PatchId[]> {
  const request = issue(transaction, (store) => store.get(doc));
  return new Promise((resolve, reject) => {
    // A promise resolved in the request's own callback leaves the transaction active for whoever awaits it.
    request.onsuccess = () => resolve(Array.isArray(request.result) ? (request.result as PatchId[]) : []);
    request.onerror = () => reject(request.error);
  });
}

/** @internal Issues the request now. Earlier marks are replaced: a mark names all there is. */
export function putKept(transaction: IDBTransaction, mark: Mark): void {
  issue(transaction, (store) => store.put([...mark.patchIds], mark.doc));
}

function issue<T>(transaction: IDBTransaction, request: (store: IDBObjectStore) => T): T {
  try {
    return request(transaction.objectStore(STORE));
  } catch (cause) {
    const name = cause instanceof DOMException ? cause.name : undefined;
    switch (name) {
      case "TransactionInactiveError":
      case "InvalidStateError":
        throw new PatchkeepError("transaction_over", undefined, { cause });
      case "NotFoundError":
      case "ReadOnlyError":
        throw new PatchkeepError("store_missing", undefined, { cause });
      default:
        throw cause;
    }
  }
}
