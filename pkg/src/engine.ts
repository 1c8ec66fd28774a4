/**
 * The border to the WebAssembly module, written down by hand: what it offers, and what it asks of this side. Both
 * sides may call each other at any time, from within a call too. Records, states and outcomes cross as JSON text in
 * the protocol's spelling; `wire.ts` gives them their public form.
 */

/** One session in the module. Errors are thrown as strings: a code, or a code and the argument's name. */
export interface EngineSession {
  /** `{tab_id, epoch, context_id, journal_id, weak, durability, status, connection}` */
  info(): string;
  /** An array of records. */
  records(): string;
  /** The journal as lines of JSON, a header first. */
  exportJournal(): string;
  /** The database of this principal's journals, whether this session's is there or in memory. */
  databaseName(): string;
  openDocument(
    doc: string,
    baseSeq: number,
    homedAtServer: boolean,
    restored: boolean,
    reconciles: boolean,
    marksInDocument: boolean,
    /** Patches that the content is known to hold, joined by spaces; `undefined` where the host does not say. */
    carried: string | undefined,
  ): EngineDocument;
  /** What a handler did; the text is the result, or the refusal's reason, or what was thrown. */
  handlerAnswered(call: number, answer: HandlerAnswer, text?: string, detail?: string): void;
  reconcileAnswered(call: number, answer: ReconcileAnswerCode): void;
  stillWanted(call: number): boolean;
  reconnect(): void;
  /** Closes the session; resolves once what was to be written is written and its identity handed over. */
  close(): Promise<void>;
}

/** One open document in the module. */
export interface EngineDocument {
  incarnation(): string;
  /** The stored version that the open content is based on. */
  baseSeq(): number | undefined;
  /** Whether a word of an earlier draft is still being taken back, durably; `settled` says when that is over. */
  isTakingBack(): boolean;
  /** Begins a new incarnation. `carried`: patch ids, joined by spaces; `undefined` where the host does not say. */
  replaceContent(
    baseSeq: number,
    homedAtServer: boolean,
    restored: boolean,
    reconciles: boolean,
    marksInDocument: boolean,
    carried: string | undefined,
  ): void;
  close(): void;
  mark(): EngineMark;
  kept(mark: EngineMark): void;
  flushed(mark: EngineMark, seq: number): void;
  /** Saves; resolves to the outcome. Throws where nothing was sent. */
  save(mark: EngineMark, text: string, baseUrl: string, headers: Headers): Promise<string>;
}

/** A mark in the module. */
export interface EngineMark {
  /** Its `base_seq`, its patch ids, `?` and the ids in doubt, joined by spaces. */
  text(): string;
}

/** What the module asks of this side. None of these throws. */
export interface Sink {
  apply(
    call: number,
    patchId: string,
    doc: string,
    incarnation: string,
    delivery: number,
    body: string,
    expiresAt: number,
    guarded: boolean,
    baseSeq: number | undefined,
  ): void;
  /** Whether the document has edits that the server has not confirmed. */
  unconfirmedEdits(doc: string): boolean;
  reconcile(call: number, incarnation: string, record: string): void;
  notice(kind: string, json: string): void;
  /** Another connection holds the opening of the storage up. */
  storageBlocked(): void;
  binary(data: Blob | ArrayBuffer): void;
  url(): Promise<string>;
}

/** The module once it is loaded. */
export interface Engine {
  /** Opens a session; rejects with a string: `session_exists`. */
  openSession(
    sink: Sink,
    principal: string,
    durability: string,
    storageTimeoutMs: number,
    handlerTimeoutMs: number,
    binaryType: string,
  ): Promise<EngineSession>;
  /** `crashed` is called once if the module panics; nothing of it may be called from then on. */
  onCrash(crashed: () => void): void;
}

/** The numbers under which a handler's news cross. */
export const HandlerAnswer = {
  Pending: 0,
  Applied: 1,
  AppliedWithResult: 2,
  AppliedUnsendable: 3,
  Refused: 4,
  Threw: 5,
} as const;
export type HandlerAnswer = (typeof HandlerAnswer)[keyof typeof HandlerAnswer];

/** The numbers under which a reconcile hook's news cross. */
export const ReconcileAnswerCode = {
  Pending: 0,
  Present: 1,
  Absent: 2,
  Unknown: 3,
} as const;
export type ReconcileAnswerCode = (typeof ReconcileAnswerCode)[keyof typeof ReconcileAnswerCode];
