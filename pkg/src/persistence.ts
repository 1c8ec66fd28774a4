/** Asking the browser to keep what is stored: it may ask the person, so the package never does it by itself. */

/** Whether the browser will not evict this origin's storage, the journal among it, by itself. */
export async function persistStorage(): Promise<boolean> {
  const storage = (globalThis.navigator as Partial<Navigator> | undefined)?.storage as Partial<StorageManager> | undefined;
  try {
    return (await storage?.persist?.()) ?? false;
  } catch {
    return false;
  }
}
