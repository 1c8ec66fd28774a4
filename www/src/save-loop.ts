/* Saves by itself: after two quiet seconds, one save at a time, again where the answer was lost.
 *
 *   clean ──touch──► quiet ──2 s──► saving ──saved──► clean
 *                      ▲              │ │ └─ unknown, offline ──► waiting ──back-off──► saving
 *                      └──touched─────┘ └─ conflict, fenced, refused ──► held (until release())
 */

/** What the page shows about saving. */
export type SaveState = "clean" | "quiet" | "saving" | "waiting" | "held";

/** What an attempt came to: its answer is known, or it has to be tried again, or a person has to decide. */
export type Attempt = "settled" | "again" | "held";

/** What the loop needs from its document. */
export interface SaveHost {
  /** Whether the stored text is not the editor's. */
  dirty(): boolean;
  /** Saves; `again` where it is not known whether the server has stored it, or it could not be reached. */
  attempt(): Promise<Attempt>;
  /** The state changed. */
  show(state: SaveState): void;
}

/** How long the text has to rest before it is saved, in ms. */
const QUIET_MS = 2000;
/** The first and the longest pause before a save is tried again, in ms. */
const RETRY_MS = { first: 500, most: 15_000 } as const;

/** The loop of one document. */
export class SaveLoop {
  readonly #host: SaveHost;
  #state: SaveState = "clean";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;

  constructor(host: SaveHost) {
    this.#host = host;
  }

  /** Where it is. */
  get state(): SaveState {
    return this.#state;
  }

  /** The text changed, or there is something else to save. */
  touch(): void {
    // While a save is under way its end looks whether there is more.
    if (this.#state === "clean" || this.#state === "quiet") this.#rest();
  }

  /** Saves now, if there is anything to save and no save is under way. */
  async now(): Promise<void> {
    if (this.#state === "saving" || this.#state === "held") return;
    clearTimeout(this.#timer);
    if (!this.#host.dirty()) return this.#become("clean");
    this.#become("saving");
    const came = await this.#host.attempt();
    // It may have been held or stopped meanwhile.
    if (this.state !== "saving") return;
    if (came === "again") return this.#waitAndRetry();
    this.#failures = 0;
    if (came === "held") return this.#become("held");
    if (this.#host.dirty()) this.#rest();
    else this.#become("clean");
  }

  /** Stops saving until `release()`: a person has to decide first. */
  hold(): void {
    clearTimeout(this.#timer);
    this.#become("held");
  }

  /** Goes on after a decision. */
  release(): void {
    if (this.#state !== "held") return;
    if (this.#host.dirty()) this.#rest();
    else this.#become("clean");
  }

  /** Ends the loop; nothing is saved any more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#state = "held";
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.now(), QUIET_MS);
    this.#become("quiet");
  }

  #waitAndRetry(): void {
    const cap = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** this.#failures);
    this.#failures += 1;
    this.#timer = setTimeout(() => void this.now(), cap / 2 + Math.random() * (cap / 2));
    this.#become("waiting");
  }

  #become(state: SaveState): void {
    this.#state = state;
    this.#host.show(state);
  }
}
