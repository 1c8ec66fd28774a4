/** One open document: marks, saves, and its content's lineages. */

import type { EngineDocument, EngineMark, EngineSession } from "./engine.js";
import { invalid, PatchkeepError } from "./errors.js";
import { putKept } from "./co-commit.js";
import { isWellFormed } from "./text.js";
import type {
  Incarnation,
  OpenDocumentOptions,
  PatchId,
  ReplaceContentOptions,
  SaveOutcome,
  SessionOptions,
} from "./types.js";
import { readMark, readSaveOutcome } from "./wire.js";

/** What a document needs of its session. */
export interface DocumentOwner {
  readonly http: SessionOptions["http"];
  /** Calls the engine; its errors come out as {@link PatchkeepError}. */
  call<T>(use: (engine: EngineSession) => T): T;
  /** Resolves when a handler of the document has settled, or the session has ended. */
  settled(doc: string): Promise<void>;
  /** A lineage of the document's content has begun. */
  begun(doc: string, incarnation: Incarnation): void;
  /** The document is closed. */
  closed(document: PatchkeepDocument): void;
}

/**
 * Every patch whose effect was in a document's text when the mark was taken, and not yet in a save that the server
 * confirmed. Take it in the same task as the snapshot it is to speak of.
 */
export class Mark {
  readonly doc: string;
  readonly incarnation: Incarnation;
  /** Orders the contents of this tab, with its epoch: what a save made by the host itself names, too. */
  readonly generation: number;
  /** The stored version that the content is based on. */
  readonly baseSeq: number;
  /** The patches: what a save made by the host itself names. */
  readonly patchIds: readonly PatchId[];
  /** Patches of which nobody can tell whether the text holds them; a save names them apart. */
  readonly inDoubt: readonly PatchId[];
  readonly #mark: EngineMark;

  /** @internal */
  constructor(doc: string, incarnation: Incarnation, mark: EngineMark) {
    this.doc = doc;
    this.incarnation = incarnation;
    this.#mark = mark;
    const { baseSeq, generation, patchIds, inDoubt } = readMark(mark.text());
    this.baseSeq = baseSeq;
    this.generation = generation;
    this.patchIds = Object.freeze(patchIds);
    this.inDoubt = Object.freeze(inDoubt);
    Object.freeze(this);
  }

  /** @internal The engine's own; throws for anything that is no mark of this document. */
  static engine(mark: unknown, doc: string): EngineMark {
    if (typeof mark === "object" && mark !== null && #mark in mark && mark.doc === doc) {
      return mark.#mark;
    }
    throw invalid("mark");
  }

  /** @internal Whether both were taken of the same text. */
  static same(one: Mark, other: Mark): boolean {
    return one.incarnation === other.incarnation && one.#mark.text() === other.#mark.text();
  }
}

/** A document that is open in this tab. */
export class PatchkeepDocument {
  readonly id: string;
  readonly #owner: DocumentOwner;
  readonly #options: OpenDocumentOptions;
  readonly #engine: EngineDocument;
  #homed: "server" | "elsewhere";
  #incarnation: Incarnation;
  #baseSeq: number;
  #saving: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(owner: DocumentOwner, id: string, options: OpenDocumentOptions) {
    this.id = id;
    this.#owner = owner;
    this.#options = options;
    this.#homed = options.homed ?? "elsewhere";
    this.#baseSeq = options.baseSeq;
    this.#engine = owner.call((engine) =>
      engine.openDocument(
        id,
        options.baseSeq,
        this.#homed === "server",
        options.restored ?? false,
        options.reconcile !== undefined,
        options.marksInDocument ?? false,
        options.carried?.join(" "),
      ),
    );
    this.#incarnation = this.#begin();
  }

  /** The lineage of the open content. */
  get incarnation(): Incarnation {
    return this.#incarnation;
  }

  /** The stored version that the open content is based on; a confirmed save raises it. */
  get baseSeq(): number {
    try {
      this.#baseSeq = this.#call((engine) => engine.baseSeq()) ?? this.#baseSeq;
    } catch {
      // The session has ended: what was known last is what there is.
    }
    return this.#baseSeq;
  }

  /**
   * Takes a mark, now. Throws `handler_running` while a handler of this document has not settled, and `not_announced`
   * while the server is just being told of this content.
   */
  mark(): Mark {
    return this.#call((engine) => new Mark(this.id, this.#incarnation, engine.mark()));
  }

  /** A local store will bring back, with the document, what the mark names. */
  kept(mark: Mark): void {
    const own = Mark.engine(mark, this.id);
    this.#call((engine) => engine.kept(own));
  }

  /**
   * Writes what the mark names into the host's own transaction, which also writes the content it was taken with: both
   * are there after a crash, or neither (J6). The request is issued before this returns, so call it where the
   * transaction is active; its store `patchkeep` is made by `upgrade` and must be in the transaction's scope. Once the
   * transaction is complete the patches are `kept`. After a reload `keptIn` reads them, for `carried`.
   */
  putIn(transaction: IDBTransaction, mark: Mark): void {
    Mark.engine(mark, this.id);
    putKept(transaction, mark);
    transaction.addEventListener("complete", () => {
      try {
        this.kept(mark);
      } catch {
        // The session has ended: the store says what it holds.
      }
    });
  }

  /** The server has confirmed, as version `seq`, a save that the host made by itself of a snapshot taken with the mark. */
  flushed(mark: Mark, { seq }: { readonly seq: number }): void {
    const own = Mark.engine(mark, this.id);
    const checked = checkSeq(seq, "seq");
    this.#call((engine) => engine.flushed(own, checked));
  }

  /**
   * Saves what `getText` returns. Waits while a handler runs, until the server has been told of this
   * content, and for an earlier save of this document; `getText` is
   * called in the task that takes the mark. Resolves to what became of it; rejects only where nothing was sent.
   */
  async save(getText: () => string): Promise<SaveOutcome> {
    if (typeof getText !== "function") {
      throw invalid("getText");
    }
    const turn = this.#saving.then(() => this.#saveNow(getText));
    this.#saving = turn.catch(() => undefined);
    return turn;
  }

  async #saveNow(getText: () => string): Promise<SaveOutcome> {
    const http = this.#owner.http;
    if (http === undefined) {
      throw invalid("http");
    }
    const given = await http.headers?.();
    let headers: Headers;
    try {
      headers = new Headers(given);
    } catch (cause) {
      throw new PatchkeepError("invalid_argument", "http.headers", { cause });
    }
    const { mark, text } = await this.#snapshot(getText);
    const own = Mark.engine(mark, this.id);
    return readSaveOutcome(await this.#call((engine) => engine.save(own, text, http.baseUrl, headers)));
  }

  /** Mark and text of one moment. The text is taken again where taking it made a patch come in. */
  async #snapshot(getText: () => string): Promise<{ readonly mark: Mark; readonly text: string }> {
    for (;;) {
      try {
        const mark = this.mark();
        const text: unknown = getText();
        if (typeof text !== "string" || !isWellFormed(text)) {
          throw invalid("getText");
        }
        if (Mark.same(this.mark(), mark)) {
          return { mark, text };
        }
      } catch (error) {
        if (!(error instanceof PatchkeepError && WAITED_FOR.has(error.code))) {
          throw error;
        }
        await this.#owner.settled(this.id);
      }
    }
  }

  /**
   * The content now comes from elsewhere: a refresh, a restore, a merge after a save conflict. A new incarnation
   * begins; what waited for the old one is refused. Call it in the task that changes the content. Say what it carries
   * over, if only `[]`: without that word nothing can be called absent from it.
   */
  replaceContent(options: ReplaceContentOptions): Incarnation {
    const baseSeq = checkSeq(options?.baseSeq, "baseSeq");
    const carried = checkCarried(options.carried);
    this.#homed = checkHomed(options.homed) ?? this.#homed;
    this.#call((engine) =>
      engine.replaceContent(
        baseSeq,
        this.#homed === "server",
        options.restored ?? false,
        this.#options.reconcile !== undefined,
        this.#options.marksInDocument ?? false,
        carried?.join(" "),
      ),
    );
    this.#baseSeq = baseSeq;
    this.#incarnation = this.#begin();
    return this.#incarnation;
  }

  /** Closes the document. A handler that runs may still settle. Closing twice is nothing. */
  close(): void {
    this.#owner.closed(this);
    try {
      this.#call((engine) => engine.close());
    } catch (error) {
      if (!(error instanceof PatchkeepError && CLOSED_ALREADY.has(error.code))) {
        throw error;
      }
    }
  }

  #begin(): Incarnation {
    const incarnation = this.#call((engine) => engine.incarnation()) as Incarnation;
    this.#owner.begun(this.id, incarnation);
    return incarnation;
  }

  #call<T>(use: (engine: EngineDocument) => T): T {
    return this.#owner.call(() => use(this.#engine));
  }

  /** @internal Whether the host must wait for it yet. A session that has ended takes nothing back. */
  get isTakingBack(): boolean {
    try {
      return this.#call((engine) => engine.isTakingBack());
    } catch {
      return false;
    }
  }

  /** @internal */
  get hooks(): OpenDocumentOptions {
    return this.#options;
  }
}

/** @internal */
export function checkOpenOptions(options: OpenDocumentOptions): OpenDocumentOptions {
  if (typeof options?.apply !== "function") {
    throw invalid("apply");
  }
  for (const name of ["reconcile", "unconfirmedEdits"] as const) {
    if (options[name] !== undefined && typeof options[name] !== "function") {
      throw invalid(name);
    }
  }
  for (const name of ["restored", "marksInDocument"] as const) {
    if (options[name] !== undefined && typeof options[name] !== "boolean") {
      throw invalid(name);
    }
  }
  checkCarried(options.carried);
  checkHomed(options.homed);
  checkSeq(options.baseSeq, "baseSeq");
  return options;
}

function checkCarried(carried: readonly PatchId[] | undefined): readonly PatchId[] | undefined {
  if (carried === undefined || (Array.isArray(carried) && carried.every((id) => typeof id === "string" && UUID.test(id)))) {
    return carried;
  }
  throw invalid("carried");
}

function checkHomed(homed: "server" | "elsewhere" | undefined): "server" | "elsewhere" | undefined {
  if (homed !== undefined && homed !== "server" && homed !== "elsewhere") {
    throw invalid("homed");
  }
  return homed;
}

function checkSeq(seq: number | undefined, argument: string): number {
  if (typeof seq !== "number" || !Number.isSafeInteger(seq) || seq < 0) {
    throw invalid(argument);
  }
  return seq;
}

/** What a save waits for, until the session says that it is over. */
const WAITED_FOR: ReadonlySet<string> = new Set(["handler_running", "not_announced"]);

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const CLOSED_ALREADY: ReadonlySet<string> = new Set(["not_open", "closed", "fenced", "crashed"]);
