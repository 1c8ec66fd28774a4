/** The session: what the host holds, and what the engine calls. */

import { checkOpenOptions, type DocumentOwner, PatchkeepDocument } from "./document.js";
import type { Engine, EngineSession, Sink } from "./engine.js";
import { ReconcileAnswerCode } from "./engine.js";
import { invalid, PatchkeepError, refuse } from "./errors.js";
import { type SessionEventMap, TypedEventTarget } from "./events.js";
import { type Answer, runHandler, runReconcile } from "./handlers.js";
import { crashed, whenCrashed } from "./init.js";
import { checkSessionOptions } from "./options.js";
import { resetDatabase } from "./reset.js";
import { sharing } from "./sharing.js";
import type {
  ConnectionState,
  ContextId,
  Durability,
  IdentityStrength,
  Incarnation,
  JournalId,
  OpenDocumentOptions,
  Patch,
  PatchId,
  RecordView,
  SessionOptions,
  SessionSnapshot,
  SessionStatus,
  StorageFault,
  TabId,
} from "./types.js";
import { isWellFormed } from "./text.js";
import { isLeftBehind, type Notice, readError, readInfo, readNotice, readRecord, readRecords, type SessionInfo } from "./wire.js";

/** Opens a session on the module that `load` gives, which is asked only once the options are checked. */
export async function openSessionWith(load: () => Promise<Engine>, options: SessionOptions): Promise<Session> {
  const checked = checkSessionOptions(options);
  const { signal } = checked;
  signal?.throwIfAborted();
  const opening = load().then((engine) => Session.open(sharing(engine), checked));
  if (signal === undefined) {
    return opening;
  }
  const session = await unlessAborted(opening, signal);
  signal.addEventListener("abort", () => void session.close(), { once: true, signal: session.ended });
  return session;
}

/** What opens after all once nobody waits for it is closed again. */
function unlessAborted(opening: Promise<Session>, signal: AbortSignal): Promise<Session> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      reject(signal.reason);
      opening.then((session) => session.close()).catch(() => undefined);
    };
    signal.addEventListener("abort", giveUp, { once: true });
    opening.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
}

/** One principal's session in this page. */
export class Session extends TypedEventTarget<SessionEventMap> {
  readonly #options: SessionOptions;
  readonly #owner: DocumentOwner;
  readonly #documents = new Map<string, PatchkeepDocument>();
  readonly #records = new Map<PatchId, RecordView>();
  readonly #settled = new Map<string, Set<() => void>>();
  readonly #subscribers = new Set<() => void>();
  readonly #ended = new AbortController();
  #engine: EngineSession | undefined;
  #info: SessionInfo = NOTHING_YET;
  #fault: StorageFault | undefined;
  #snapshot: SessionSnapshot | undefined;
  #isNotifying = false;
  /** Events of the time before the host could listen. */
  #early: (() => void)[] | undefined = [];
  #closing: Promise<void> | undefined;

  private constructor(options: SessionOptions) {
    super();
    this.#options = options;
    this.#owner = {
      http: options.http,
      call: (use) => this.#call(use),
      settled: (doc) => this.#untilSettled(doc),
      begun: (doc, incarnation) => this.#begun(doc, incarnation),
      closed: (document) => this.#closed(document),
    };
  }

  /** @internal */
  static async open(engine: Engine, options: SessionOptions): Promise<Session> {
    const session = new Session(options);
    const durability = options.storage?.durability ?? "strict";
    const storageTimeout = options.storage?.timeoutMs ?? DEFAULT_STORAGE_TIMEOUT_MS;
    const timeout = options.handlerTimeoutMs ?? DEFAULT_HANDLER_TIMEOUT_MS;
    const binaryType = options.socket.binaryType ?? "blob";
    const sink = session.#sink();
    try {
      session.#engine = await engine.openSession(sink, options.principal, durability, storageTimeout, timeout, binaryType);
    } catch (thrown) {
      throw isTrap(thrown) ? new PatchkeepError("crashed", undefined, { cause: thrown }) : readError(thrown);
    }
    session.#begin();
    return session;
  }

  /** This browsing context, as the server knows it. */
  get tabId(): TabId {
    return this.#info.tabId;
  }

  /** How often a context has taken that id, this one included. */
  get epoch(): number {
    return this.#info.epoch;
  }

  /** This load of the page. */
  get contextId(): ContextId {
    return this.#info.contextId;
  }

  /** The journal; another id means that the old one is gone. */
  get journalId(): JournalId {
    return this.#info.journalId;
  }

  /** Whether a Web Lock guards the tab id. */
  get identity(): IdentityStrength {
    return this.#info.weak ? "weak" : "strong";
  }

  /** What the journal promises now. */
  get durability(): Durability {
    return this.#info.durability;
  }

  /** Whether the session may act. */
  get status(): SessionStatus {
    return this.#info.status;
  }

  /** Where the connection is. */
  get connection(): ConnectionState {
    return this.#info.connection;
  }

  /** Aborted when the session has ended. @internal */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Opens a document: tells the server, and takes patches for it from here on. The content must be in place. */
  async openDocument(id: string, options: OpenDocumentOptions): Promise<PatchkeepDocument> {
    if (typeof id !== "string" || id === "" || !isWellFormed(id)) {
      throw invalid("id");
    }
    const document = new PatchkeepDocument(this.#owner, id, { ...checkOpenOptions(options) });
    this.#documents.set(id, document);
    // A draft that is written of this content must not find the word of an older one standing (J6).
    while (document.isTakingBack && !this.ended.aborted) {
      await this.#untilSettled(id);
    }
    return document;
  }

  /** Every record of this tab's journal. */
  records(): readonly RecordView[] {
    return this.getSnapshot().records;
  }

  /**
   * The whole journal as lines of JSON: a header with version, ids and the SHA-256 of each line, then a line for each
   * record. It holds document ids, patch ids, digests and what handlers returned, and no text of any document.
   */
  exportJournal(): string {
    return this.#call((engine) => engine.exportJournal());
  }

  /**
   * Deletes the principal's journals in this browser, where they are damaged (`storage_corrupt`), and resolves to what
   * could be read out of them, as lines of JSON for a person to look at. Tabs that still use them go on in memory, as
   * this session does; the next load begins a journal anew. What only the damaged journal knew is `unknown` for good.
   *
   * Rejects with `storage_sound` where nothing is damaged, and with `storage_blocked` where the deletion has to wait for
   * another tab.
   */
  async resetStorage(): Promise<string> {
    if (this.#fault !== "storage_corrupt") {
      throw new PatchkeepError("storage_sound");
    }
    const name = this.#call((engine) => engine.databaseName());
    const lines = await resetDatabase(name, this.#options.storage?.timeoutMs ?? DEFAULT_STORAGE_TIMEOUT_MS);
    this.#fault = "storage_evicted";
    this.#changed();
    return lines;
  }

  /** The records as they change, from now on, until the session ends or the loop is left; of one record the newest. */
  async *recordChanges(options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<RecordView, void> {
    const waiting = new Map<PatchId, RecordView>();
    const isOver = (): boolean => this.ended.aborted || options.signal?.aborted === true;
    let wake = (): void => undefined;
    const stop = new AbortController();
    const listening = { signal: stop.signal };
    this.addEventListener("recordchange", ({ detail }) => (waiting.set(detail.patchId, detail), wake()), listening);
    this.addEventListener("recordgone", ({ detail }) => waiting.delete(detail.patchId), listening);
    this.ended.addEventListener("abort", () => wake(), listening);
    options.signal?.addEventListener("abort", () => wake(), listening);
    try {
      for (;;) {
        const [next] = waiting;
        if (next !== undefined) {
          waiting.delete(next[0]);
          yield next[1];
        } else if (isOver()) {
          return;
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      stop.abort();
    }
  }

  /** Tries to connect at once: after new credentials, or because the host knows better than the back-off. */
  reconnect(): void {
    this.#call((engine) => engine.reconnect());
  }

  /** Ends the session. Its identity goes over to the next session of this page. Closing twice is nothing. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** All there is to read; the same object until something changes. */
  readonly getSnapshot = (): SessionSnapshot => {
    const { status, connection, durability, tabId, epoch, contextId, journalId } = this.#info;
    this.#snapshot ??= Object.freeze({
      status,
      connection,
      durability,
      fault: this.#fault,
      tabId,
      epoch,
      contextId,
      journalId,
      identity: this.identity,
      records: Object.freeze([...this.#records.values()]),
    });
    return this.#snapshot;
  };

  /** Calls `listener`, soon, after anything in the snapshot has changed. Returns what ends that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    if (typeof listener !== "function") {
      throw invalid("listener");
    }
    const own = (): void => listener();
    this.#subscribers.add(own);
    return () => void this.#subscribers.delete(own);
  };

  #begin(): void {
    this.#refresh();
    this.#call((engine) => {
      for (const record of readRecords(engine)) {
        this.#records.set(record.patchId, record);
      }
    });
    this.#changed();
    const forget = whenCrashed(() => this.#crash());
    this.ended.addEventListener("abort", forget, { once: true });
    // Whoever awaits `openSession` attaches its listeners before the next task.
    setTimeout(() => {
      const early = this.#early ?? [];
      this.#early = undefined;
      early.forEach((emit) => emit());
    });
  }

  async #close(): Promise<void> {
    const engine = this.#engine;
    if (engine === undefined || this.status === "crashed") {
      return;
    }
    try {
      await engine.close();
    } catch (thrown) {
      this.#noteTrap(thrown);
      throw readError(thrown);
    } finally {
      this.#end();
    }
  }

  /** Nothing comes any more: whoever waits is let go. */
  #end(): void {
    this.#documents.clear();
    for (const doc of [...this.#settled.keys()]) {
      this.#letGo(doc);
    }
    this.#ended.abort();
  }

  /** The records of a document follow what is open: `current` is about that, and no record has changed. */
  #begun(doc: string, incarnation: Incarnation | undefined): void {
    for (const record of this.#records.values()) {
      const current = record.incarnation === incarnation;
      if (record.doc === doc && record.current !== current) {
        this.#records.set(record.patchId, { ...record, current, leftBehind: isLeftBehind({ ...record, current }) });
      }
    }
    this.#changed();
  }

  #closed(document: PatchkeepDocument): void {
    if (this.#documents.get(document.id) === document) {
      this.#documents.delete(document.id);
      this.#begun(document.id, undefined);
    }
  }

  #call<T>(use: (engine: EngineSession) => T): T {
    if (this.status === "crashed" || this.#engine === undefined) {
      throw new PatchkeepError(this.status === "crashed" ? "crashed" : "closed");
    }
    try {
      return use(this.#engine);
    } catch (thrown) {
      this.#noteTrap(thrown);
      throw readError(thrown);
    }
  }

  /** Answers that come when nobody can take them any more are dropped: the records say what was left open. */
  readonly #answer: Answer = (give) => {
    try {
      this.#call(give);
    } catch {
      // The session has crashed; `crashed` was emitted.
    }
  };

  #noteTrap(thrown: unknown): void {
    if (isTrap(thrown)) {
      crashed();
    }
  }

  #crash(): void {
    this.#info = { ...this.#info, status: "crashed", connection: { state: "ended" } };
    this.#changed();
    this.#emitSoon(() => {
      this.emit("statuschange", "crashed");
      this.emit("crashed", undefined);
    });
    this.#end();
  }

  #untilSettled(doc: string): Promise<void> {
    if (this.ended.aborted) {
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const waiting = this.#settled.get(doc) ?? new Set();
      this.#settled.set(doc, waiting.add(resolve));
    });
  }

  #letGo(doc: string): void {
    const waiting = this.#settled.get(doc);
    this.#settled.delete(doc);
    waiting?.forEach((resolve) => resolve());
  }

  #refresh(): void {
    this.#call((engine) => (this.#info = readInfo(engine)));
  }

  /** The snapshot is out of date: subscribers hear of it once per burst. */
  #changed(): void {
    this.#snapshot = undefined;
    if (this.#subscribers.size === 0 || this.#isNotifying) {
      return;
    }
    this.#isNotifying = true;
    queueMicrotask(() => {
      this.#isNotifying = false;
      for (const listener of this.#subscribers) {
        try {
          listener();
        } catch (error) {
          reportError(error);
        }
      }
    });
  }

  #emitSoon(emit: () => void): void {
    if (this.#early === undefined) {
      emit();
    } else {
      this.#early.push(emit);
    }
  }

  #sink(): Sink {
    return {
      apply: (...call) => this.#apply(...call),
      unconfirmedEdits: (doc) => this.#unconfirmedEdits(doc),
      reconcile: (call, _incarnation, record) => {
        const hook = this.#documents.get(readRecord(record).doc)?.hooks.reconcile;
        if (hook === undefined) {
          this.#answer((engine) => engine.reconcileAnswered(call, ReconcileAnswerCode.Unknown));
        } else {
          runReconcile(hook, readRecord(record), call, this.#answer);
        }
      },
      notice: (kind, json) => {
        const notice = readNotice(kind, json);
        if (notice !== undefined) {
          this.#take(notice);
        }
      },
      binary: (data) => this.#emitSoon(() => this.emit("binary", data)),
      storageBlocked: () => {
        try {
          this.#options.storage?.onBlocked?.();
        } catch (error) {
          reportError(error);
        }
      },
      url: async () => String(await this.#options.socket.url()),
    };
  }

  #apply(...args: Parameters<Sink["apply"]>): void {
    const [call, patchId, doc, incarnation, delivery, bodyText, expiresAt, guarded, baseSeq] = args;
    const document = this.#documents.get(doc);
    const patch: Patch = {
      patchId: patchId as PatchId,
      doc,
      incarnation: incarnation as Incarnation,
      delivery,
      body: JSON.parse(bodyText),
      bodyText,
      guarded,
      expiresAt,
      ...(baseSeq === undefined ? {} : { baseSeq }),
      stillWanted: () => {
        try {
          return this.#call((engine) => engine.stillWanted(call));
        } catch {
          return false;
        }
      },
    };
    runHandler(document === undefined ? refuseNotOpen : document.hooks.apply, patch, call, this.#answer);
  }

  /** A host that cannot tell, or fails to, may have such edits. */
  #unconfirmedEdits(doc: string): boolean {
    try {
      return this.#documents.get(doc)?.hooks.unconfirmedEdits?.() !== false;
    } catch (error) {
      reportError(error);
      return true;
    }
  }

  #take(notice: Notice): void {
    switch (notice.kind) {
      case "connection":
        this.#info = { ...this.#info, connection: notice.state };
        this.#emitSoon(() => this.emit("connectionchange", notice.state));
        break;
      case "status":
        this.#info = { ...this.#info, status: notice.status };
        this.#emitSoon(() => this.emit("statuschange", notice.status));
        break;
      case "durability": {
        const { durability, journalId, fault } = notice.change;
        this.#info = { ...this.#info, durability, journalId };
        this.#fault = fault ?? this.#fault;
        this.#emitSoon(() => this.emit("durabilitychange", notice.change));
        break;
      }
      case "record":
        this.#records.set(notice.record.patchId, notice.record);
        this.#emitSoon(() => this.emit("recordchange", notice.record));
        break;
      case "gone":
        this.#records.delete(notice.patchId);
        this.#emitSoon(() => this.emit("recordgone", { doc: notice.doc, patchId: notice.patchId }));
        break;
      case "opened": {
        const { doc, incarnation, seq } = notice;
        this.#emitSoon(() => this.emit("opened", { doc, incarnation, seq }));
        return;
      }
      case "changed":
        this.#emitSoon(() => this.emit("docchanged", { doc: notice.doc, seq: notice.seq }));
        return;
      case "settled":
        this.#letGo(notice.doc);
        return;
      case "problem":
        this.#emitSoon(() => this.emit("problem", notice.problem));
        return;
    }
    this.#changed();
  }
}

function refuseNotOpen(): never {
  throw refuse("not_open");
}

/** The module has hit an `unreachable`, or run out of stack or memory: nothing of it may be used any more. */
function isTrap(thrown: unknown): boolean {
  return thrown instanceof WebAssembly.RuntimeError || thrown instanceof RangeError;
}

const DEFAULT_HANDLER_TIMEOUT_MS = 30_000;
const DEFAULT_STORAGE_TIMEOUT_MS = 5_000;

/** What can be read of a session that is being opened; nobody holds it yet. */
const NOTHING_YET: SessionInfo = {
  tabId: "" as TabId,
  epoch: 0,
  contextId: "" as ContextId,
  journalId: "" as JournalId,
  weak: true,
  durability: "memory",
  status: "live",
  connection: { state: "connecting" },
};

declare global {
  interface SymbolConstructor {
    /** As the library `ESNext.Disposable` says it, which a host need not have. */
    readonly asyncDispose: unique symbol;
  }
}
