/**
 * One engine for all sessions of a principal in this page, and for all copies of the package (T2): there is one tab, so
 * there is one journal, one connection and one machine, and whoever opens a session takes part in it.
 *
 * ```text
 *  first opens ──► engine ◄── joins ── second, third …      documents: each answers for those it opened
 *                    │                                      url, headers: asked of whoever joined first and is still here
 *                    └── closed when the last one leaves; whoever opens meanwhile waits for that
 * ```
 */

import type { Engine, EngineDocument, EngineSession, Sink } from "./engine.js";
import { crashed, whenCrashed } from "./init.js";

/** What the copy of the package that runs the engine offers to the others. */
interface Shared {
  /** Takes part. Nothing once the engine is closing, fenced or crashed: it is nobody's tab any more. */
  join(sink: Sink): EngineSession | undefined;
  /** Calls `listener` when the engine has crashed. */
  whenCrashed(listener: () => void): void;
  /** Somebody's call hit the crash before the engine could say so. */
  crashed(): void;
}

/** The module as sessions see it: opens an engine, or joins the one that runs. */
export function sharing(engine: Engine): Engine {
  return {
    openSession: (...args) => openOrJoin(engine, ...args),
    onCrash: (listener) => engine.onCrash(listener),
  };
}

async function openOrJoin(engine: Engine, ...args: Parameters<Engine["openSession"]>): Promise<EngineSession> {
  const [sink, principal, ...rest] = args;
  const running = registry();
  for (;;) {
    const before = running.get(principal);
    if (before === undefined) {
      break;
    }
    const shared = await before.catch(() => undefined);
    const joined = shared?.join(sink);
    if (shared !== undefined && joined !== undefined) {
      if (!(shared instanceof Table)) {
        // Another copy's: each hears of what the other was the first to notice.
        shared.whenCrashed(crashed);
        whenCrashed(() => shared.crashed());
      }
      return joined;
    }
    if (running.get(principal) === before) {
      running.delete(principal);
    }
  }
  const table = new Table();
  const own = table.seat(sink);
  const opening = engine.openSession(table.sink, principal, ...rest).then((session) => {
    table.begin(session, (closing) => {
      // What is told to whoever comes meanwhile: wait, then open your own.
      const gone = closing?.then(() => undefined);
      if (gone === undefined) {
        running.delete(principal);
      } else {
        running.set(principal, gone);
        void gone.finally(() => running.get(principal) === gone && running.delete(principal));
      }
    });
    return table;
  });
  running.set(principal, opening);
  try {
    await opening;
  } catch (error) {
    running.delete(principal);
    throw error;
  }
  return own.session;
}

/** Who takes part in one engine. */
class Table implements Shared {
  readonly #guests = new Set<Guest>();
  #engine: EngineSession | undefined;
  #isOver = false;
  #left: (closing?: Promise<void>) => void = () => undefined;

  /** The engine is there. `left` is called when no one may join any more. */
  begin(engine: EngineSession, left: (closing?: Promise<void>) => void): void {
    this.#engine = engine;
    this.#left = left;
    whenCrashed(() => this.#end());
  }

  get engine(): EngineSession {
    if (this.#engine === undefined) {
      throw "closed";
    }
    return this.#engine;
  }

  seat(sink: Sink): Guest {
    const guest = new Guest(this, sink);
    this.#guests.add(guest);
    return guest;
  }

  join(sink: Sink): EngineSession | undefined {
    return this.#isOver ? undefined : this.seat(sink).session;
  }

  whenCrashed(listener: () => void): void {
    whenCrashed(listener);
  }

  crashed(): void {
    crashed();
  }

  /** A guest leaves; the last one closes the engine and hears what it has to say about that. */
  async leave(guest: Guest): Promise<void> {
    if (this.#guests.size > 1 || !this.#guests.has(guest)) {
      this.#guests.delete(guest);
      return;
    }
    const closing = this.engine.close();
    this.#end(closing);
    await closing;
    this.#guests.delete(guest);
  }

  /** Whether others take part. */
  isShared(guest: Guest): boolean {
    return this.#guests.size > 1 && this.#guests.has(guest);
  }

  #end(closing?: Promise<void>): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#left(closing);
    }
  }

  /** Notices and binary frames go to everybody, what is asked about a document to whoever opened it, all else to the first. */
  readonly sink: Sink = forwarding<Sink>(() => [...this.#guests][0]?.sink, {
    apply: (...call) => this.#of(call[2])?.apply(...call),
    unconfirmedEdits: (doc) => this.#of(doc)?.unconfirmedEdits(doc) ?? true,
    reconcile: (call, incarnation, record) =>
      this.#of((JSON.parse(record) as { readonly doc: string }).doc)?.reconcile(call, incarnation, record),
    notice: (kind, json) => {
      if (kind === "status" && json === '"fenced"') {
        this.#end();
      }
      [...this.#guests].forEach(({ sink }) => sink.notice(kind, json));
    },
    binary: (data) => [...this.#guests].forEach(({ sink }) => sink.binary(data)),
  });

  #of(doc: string): Sink | undefined {
    const guests = [...this.#guests];
    return (guests.find(({ documents }) => documents.has(doc)) ?? guests[0])?.sink;
  }
}

/** One who takes part: an engine session of its own to look at, which leaves where the engine would be closed. */
class Guest {
  readonly documents = new Map<string, EngineDocument | undefined>();
  readonly sink: Sink;
  readonly session: EngineSession;
  #leaving: Promise<void> | undefined;

  constructor(table: Table, sink: Sink) {
    this.sink = sink;
    this.session = forwarding<EngineSession>(() => table.engine, {
      openDocument: (doc, ...rest) => this.#open(table, doc, ...rest),
      close: () => (this.#leaving ??= this.#leave(table)),
    }, (name) => {
      if (this.#leaving !== undefined && !AFTERWARDS.has(name)) {
        throw "closed";
      }
    });
  }

  /** Known before the engine is asked: it may ask back at once. */
  #open(table: Table, doc: string, ...rest: Tail<Parameters<EngineSession["openDocument"]>>): EngineDocument {
    if (this.#leaving !== undefined) {
      throw "closed";
    }
    const before = this.documents.get(doc);
    const was = this.documents.has(doc);
    this.documents.set(doc, before);
    try {
      const opened = table.engine.openDocument(doc, ...rest);
      this.documents.set(doc, opened);
      return forwarding<EngineDocument>(() => opened, {
        close: () => {
          opened.close();
          if (this.documents.get(doc) === opened) {
            this.documents.delete(doc);
          }
        },
      });
    } catch (error) {
      if (!was) {
        this.documents.delete(doc);
      }
      throw error;
    }
  }

  async #leave(table: Table): Promise<void> {
    if (!table.isShared(this)) {
      return table.leave(this);
    }
    for (const document of this.documents.values()) {
      try {
        document?.close();
      } catch {
        // It is closed already, or the engine is.
      }
    }
    await table.leave(this);
    this.sink.notice("connection", '{"state":"ended"}');
    this.sink.notice("status", '"closed"');
  }
}

/** Everything as `target()` has it now, but for `own`; methods of later versions are passed on as well. */
function forwarding<T extends object>(target: () => T | undefined, own: Partial<T>, check?: (name: PropertyKey) => void): T {
  return new Proxy(own as T, {
    get: (_, name) => {
      if (Object.hasOwn(own, name)) {
        return Reflect.get(own, name);
      }
      const on = target();
      const method: unknown = on === undefined ? undefined : Reflect.get(on, name);
      if (typeof method !== "function") {
        // Above all there is no `then`: whoever awaits this must get this.
        return undefined;
      }
      return (...args: unknown[]): unknown => {
        check?.(name);
        return Reflect.apply(method, on, args);
      };
    },
  });
}

/** What a session may still say and read once it has left: handlers that run settle, and nothing of that is dropped (J3). */
const AFTERWARDS: ReadonlySet<PropertyKey> = new Set(["info", "records", "exportJournal", "databaseName", "handlerAnswered", "reconcileAnswered", "stillWanted"]);

type Tail<T extends readonly unknown[]> = T extends readonly [unknown, ...infer Rest] ? Rest : never;

/** The engines that run in this page, by principal, and those that are being opened or closed. */
function registry(): Map<string, Promise<Shared | undefined>> {
  const page = globalThis as { [REGISTRY]?: Map<string, Promise<Shared | undefined>> };
  page[REGISTRY] ??= new Map();
  return page[REGISTRY];
}

/** Copies whose `engine.ts` has another shape have another number, and open no second session beside this one. */
const REGISTRY = Symbol.for("patchkeep.engines.v2");
