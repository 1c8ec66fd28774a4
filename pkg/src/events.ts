/** An EventTarget whose events are known by name. */

import type {
  ConnectionState,
  DurabilityChange,
  Incarnation,
  PatchId,
  Problem,
  RecordView,
  SessionStatus,
} from "./types.js";

/** The session's events; each `detail` is what the name says. */
export interface SessionEventMap {
  /** The connection's state changed. */
  connectionchange: CustomEvent<ConnectionState>;
  /** The session was fenced, closed, or crashed. */
  statuschange: CustomEvent<SessionStatus>;
  /** The journal promises something else now. */
  durabilitychange: CustomEvent<DurabilityChange>;
  /** A record is new or changed. */
  recordchange: CustomEvent<RecordView>;
  /** A record is gone: its intent was dropped, its patch was proven absent, or it was over for thirty days (J10). */
  recordgone: CustomEvent<{ readonly doc: string; readonly patchId: PatchId }>;
  /** The server knows this instance of a document and has fenced earlier ones. `seq` is the stored version. */
  opened: CustomEvent<{ readonly doc: string; readonly incarnation: Incarnation; readonly seq: number }>;
  /** Somebody else committed. */
  docchanged: CustomEvent<{ readonly doc: string; readonly seq: number }>;
  /** Something went wrong without stopping anything. */
  problem: CustomEvent<Problem>;
  /** A binary frame, untouched and in order. */
  binary: CustomEvent<Blob | ArrayBuffer>;
  /** The engine is unusable; nothing is applied or sent any more. Reload the page. */
  crashed: CustomEvent<undefined>;
}

type Listener<E extends Event> = ((event: E) => void) | { handleEvent(event: E): void };

/** `EventTarget` with the names and details of `Events`. */
export class TypedEventTarget<Events extends { [Name in keyof Events]: Event }> {
  readonly #target = new EventTarget();

  addEventListener<Name extends keyof Events & string>(
    type: Name,
    listener: Listener<Events[Name]> | null,
    options?: boolean | AddEventListenerOptions,
  ): void {
    this.#target.addEventListener(type, listener as EventListenerOrEventListenerObject | null, options);
  }

  removeEventListener<Name extends keyof Events & string>(
    type: Name,
    listener: Listener<Events[Name]> | null,
    options?: boolean | EventListenerOptions,
  ): void {
    this.#target.removeEventListener(type, listener as EventListenerOrEventListenerObject | null, options);
  }

  /** @internal */
  protected emit<Name extends keyof Events & string>(
    type: Name,
    ...detail: Events[Name] extends CustomEvent<infer Detail> ? [Detail] : []
  ): void {
    this.#target.dispatchEvent(new CustomEvent(type, { detail: detail[0] }));
  }
}
