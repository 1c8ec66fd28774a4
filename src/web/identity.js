// @ts-check
// Who this tab is (T1–T3), as far as the platform knows: `sessionStorage`, Web Locks, and the registry on the global
// object that all sessions of this context share, also those of other copies of the package.

/**
 * One principal's tab. What is in the registry is read by other versions of this code: fields are only added.
 *
 * @typedef {object} Entry
 * @property {string} [tabId]
 * @property {number} [epoch] at which the last session of this context held it
 * @property {boolean} [weak] no lock guards it
 * @property {Map<string, number>} [generations] how many contents of each document this context has begun; a version of
 *   this code that does not count has no such map
 * @property {boolean} inUse a session holds it
 * @property {boolean} [lost] not to be used again
 * @property {() => void} [release] lets go of its lock
 * @property {(() => void) | undefined} [onLost] the session's own
 */

/** A principal's place in the registry, taken by one session at a time. */
export class Place {
  /**
   * @param {string} principal
   * @param {string} fresh the id of this context, if it has none yet
   */
  constructor(principal, fresh) {
    const { contextId, tabs } = registry(fresh);
    this.principal = principal;
    this.contextId = contextId;
    this.tabs = tabs;
    const parked = tabs.get(principal);
    /** Whether another session has it; one that has lost it holds nobody up. */
    this.isTaken = parked?.inUse === true && !parked.lost;
    /** @type {Entry} */
    this.entry = parked === undefined || parked.lost ? unused() : parked;
    if (!this.isTaken) {
      this.entry.inUse = true;
      tabs.set(principal, this.entry);
    }
  }

  /** The tab id that an earlier session of this context left. */
  get tabId() {
    return this.entry.tabId;
  }

  get epoch() {
    return this.entry.epoch ?? 0;
  }

  get weak() {
    return this.entry.weak === true;
  }

  /** The tab id of an earlier load. `null` in workers, and where reading it throws. */
  stored() {
    try {
      return sessionStorage.getItem(this.#key());
    } catch {
      return null;
    }
  }

  /**
   * Takes the lock on a tab id if nobody holds it.
   *
   * @param {string} tabId
   * @returns {Promise<boolean>}
   */
  tryLock(tabId) {
    const { entry } = this;
    return new Promise((answer) => {
      const held = navigator.locks.request(lockName(tabId), { ifAvailable: true }, (lock) => {
        if (lock === null) {
          return answer(false);
        }
        return new Promise((release) => {
          entry.release = () => release(undefined);
          answer(true);
        });
      });
      held.catch(() => {
        // Refused outright, or taken away from whoever held it.
        answer(false);
        if (entry.release !== undefined) {
          entry.lost = true;
          entry.onLost?.();
        }
      });
    });
  }

  /**
   * @param {string} tabId
   * @param {boolean} weak
   */
  hold(tabId, weak) {
    this.entry.tabId = tabId;
    this.entry.weak = weak;
  }

  /**
   * The id is held at this epoch; with `remember` the next load may resume it.
   *
   * @param {number} epoch
   * @param {boolean} remember
   */
  confirm(epoch, remember) {
    this.entry.epoch = epoch;
    if (remember) {
      this.#store((storage, tabId) => storage.setItem(this.#key(), tabId));
    }
  }

  /**
   * One more content of a document begins. Where nobody has counted, nobody can say that it is the first.
   *
   * @param {string} doc
   */
  nextGeneration(doc) {
    const { generations } = this.entry;
    const before = generations === undefined ? 1 : (generations.get(doc) ?? 0);
    generations?.set(doc, before + 1);
    return before + 1;
  }

  /**
   * Calls `lost` when the lock is taken away.
   *
   * @param {() => void} lost
   */
  onLost(lost) {
    this.entry.onLost = lost;
    if (this.entry.lost) {
      lost();
    }
  }

  /** The id is not to be used again, by this load or the next. */
  forget() {
    this.entry.lost = true;
    if (this.stored() === this.entry.tabId) {
      this.#store((storage) => storage.removeItem(this.#key()));
    }
  }

  /** Leaves the id and its lock to the next session of this context; one that was lost or forgotten is let go. */
  leave() {
    this.entry.onLost = undefined;
    this.entry.inUse = false;
    if (this.entry.lost || this.entry.tabId === undefined) {
      this.entry.release?.();
      if (this.tabs.get(this.principal) === this.entry) {
        this.tabs.delete(this.principal);
      }
    }
  }

  /** Lets go of an id whose epoch could not be raised. The place stays taken. */
  giveUp() {
    this.entry.release?.();
    this.entry = unused();
    this.tabs.set(this.principal, this.entry);
  }

  /**
   * A full or forbidden store only means that the next load gets another id.
   *
   * @param {(storage: Storage, tabId: string) => void} change
   */
  #store(change) {
    try {
      change(sessionStorage, this.entry.tabId ?? "");
    } catch {
      // As said.
    }
  }

  #key() {
    return `patchkeep:tab:${this.principal}`;
  }
}

/** @returns {Entry} */
function unused() {
  return { inUse: true, generations: new Map() };
}

/** Whether there are Web Locks here. In insecure contexts there are none. */
export function hasLocks() {
  return typeof navigator === "object" && !!navigator?.locks;
}

/** @param {string} tabId */
const lockName = (tabId) => `patchkeep:tab:${tabId}`;

/**
 * @param {string} fresh
 * @returns {{ contextId: string, tabs: Map<string, Entry> }}
 */
function registry(fresh) {
  const shared = /** @type {any} */ (globalThis);
  // Another shape gets another number.
  shared[REGISTRY] ??= { contextId: fresh, tabs: new Map() };
  return shared[REGISTRY];
}

const REGISTRY = Symbol.for("patchkeep.identity.v1");
