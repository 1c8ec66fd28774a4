/* One open document: its editor, its handle in the session, and what happens when the stored text moves on. */

import { apply } from "patchkeep/codemirror";
import { PatchkeepError, type PatchkeepDocument, type PatchId, type SaveOutcome, type Session } from "patchkeep";
import { element } from "./dom.ts";
import { Editor } from "./editor.ts";
import { merge, type Overlap } from "./merge.ts";
import { SaveLoop, type Attempt, type SaveState } from "./save-loop.ts";
import type { Activity } from "./activity.ts";
import type { Notices } from "./notices.ts";
import type { Server, StoredDocument } from "./server.ts";

/** What a document needs from the page. */
export interface DocumentContext {
  readonly session: Session;
  readonly server: Server;
  readonly activity: Activity;
  readonly notices: Notices;
  /** Something that is shown of this document changed. */
  readonly changed: (doc: string) => void;
}

/** How many saves without an answer are remembered. */
const MOST_LOST = 20;

/** A save, as it left; where its answer never came, the server may hold exactly this. */
interface SentSave {
  readonly text: string;
  readonly patchIds: readonly PatchId[];
}

/** One open document. */
export class OpenDocument {
  readonly doc: string;
  readonly editor: Editor;
  readonly #context: DocumentContext;
  readonly #loop: SaveLoop;
  #handle: PatchkeepDocument | undefined;
  #stored: StoredDocument = { text: "", seq: 0 };
  /** Saves whose answers never came, oldest first. */
  #lost: readonly SentSave[] = [];
  #over = false;

  constructor(context: DocumentContext, doc: string, parent: HTMLElement) {
    this.doc = doc;
    this.#context = context;
    this.#loop = new SaveLoop({
      dirty: () => this.dirty,
      attempt: () => this.#attempt(),
      show: () => context.changed(doc),
    });
    this.editor = new Editor(parent, `Text of ${doc}`, {
      changed: () => this.touch(),
      save: () => void this.save(),
    });
    this.editor.writable = false;
  }

  /** Loads the stored text and opens the document in the session. */
  async open(): Promise<void> {
    this.#stored = await this.#context.server.document(this.doc);
    this.editor.replace(this.#stored.text);
    const applyToEditor = apply(this.editor.view);
    this.#handle = await this.#context.session.openDocument(this.doc, {
      apply: (patch) => this.editor.patching(patch.patchId, () => applyToEditor(patch)),
      unconfirmedEdits: () => this.dirty,
      // The text was just loaded from the server, and there is no draft: what an earlier load of this page left unsaved
      // is not in it.
      homed: "server",
      carried: [],
      baseSeq: this.#stored.seq,
    });
    this.editor.writable = true;
    this.#context.changed(this.doc);
  }

  /** Whether the stored document lacks anything that is here. */
  get dirty(): boolean {
    return this.#handle !== undefined && (this.editor.text !== this.#stored.text || this.#unflushed().length > 0);
  }

  /** The version this content is based on. */
  get baseSeq(): number {
    return this.#stored.seq;
  }

  /** Where the save loop is. */
  get saveState(): SaveState | "loading" {
    return this.#handle === undefined && !this.#over ? "loading" : this.#loop.state;
  }

  /** The text or the journal changed. */
  touch(): void {
    if (this.#handle && this.dirty) this.#loop.touch();
    this.#context.changed(this.doc);
  }

  /** Saves now. */
  save(): Promise<void> {
    return this.#loop.now();
  }

  /** The stored document has another version: take it over if nothing here would be lost, else the next save merges. */
  async movedOn(seq: number): Promise<void> {
    if (this.#over || seq <= this.#stored.seq || this.dirty) return;
    const stored = await this.#context.server.document(this.doc);
    if (this.#over || stored.seq <= this.#stored.seq) return;
    // The person may have typed, or a patch may have come, while the text was under way.
    if (this.dirty) return this.touch();
    this.#begin(stored, stored.text, []);
    this.#context.activity.say(`${this.doc}: somebody else wrote; now at seq ${stored.seq}`);
  }

  /** This instance is dead (J4): nothing of it may be edited or saved any more. */
  end(): void {
    this.#over = true;
    this.editor.writable = false;
    this.#loop.stop();
    this.#context.changed(this.doc);
  }

  /** The marks in the editor follow the journal: only what no confirmed save holds stays marked. */
  refreshMarks(): void {
    this.editor.keepMarks(new Set<string>(this.#unflushed()));
  }

  #unflushed(): readonly PatchId[] {
    return this.#context.session
      .records()
      .filter((record) => record.doc === this.doc && record.current && record.state === "applied" && !record.flushed)
      .map((record) => record.patchId);
  }

  async #attempt(): Promise<Attempt> {
    const handle = this.#handle;
    if (!handle) return "held";
    let sent: SentSave = { text: "", patchIds: [] };
    try {
      const outcome = await handle.save(() => {
        sent = { text: this.editor.text, patchIds: handle.mark().patchIds };
        return sent.text;
      });
      return await this.#after(sent, outcome);
    } catch (error) {
      if (error instanceof PatchkeepError && error.retryable) return "again";
      const reason = error instanceof Error ? error.message : String(error);
      this.#context.activity.say(`${this.doc}: not saved: ${reason}`, "bad");
      return error instanceof PatchkeepError ? "held" : "again";
    }
  }

  async #after(sent: SentSave, outcome: SaveOutcome): Promise<Attempt> {
    const { activity, notices } = this.#context;
    switch (outcome.status) {
      case "saved":
        this.#stored = { text: sent.text, seq: outcome.seq };
        this.#lost = [];
        notices.clear(`save ${this.doc}`);
        activity.say(`${this.doc}: saved as seq ${outcome.seq}${named(sent.patchIds)}`, "good");
        return "settled";
      case "conflict":
        return this.#resolve(outcome.patchIds);
      case "fenced":
        this.end();
        this.#offerReload("A later instance of this tab has taken this document over.");
        return "held";
      case "refused":
        // The server has not heard of this content yet, since its socket is down: nothing was written.
        if (outcome.code === "save_not_announced") return "again";
        this.#refused(outcome.code ?? `HTTP ${outcome.httpStatus}`);
        return "held";
      case "unknown":
        // Said once for a text, however often it is tried.
        if (this.#lost.at(-1)?.text !== sent.text) {
          this.#lost = [...this.#lost, sent].slice(-MOST_LOST);
          activity.say(`${this.doc}: it is not known whether the save was stored (${outcome.detail}); the next one finds out`, "warn");
        }
        return "again";
    }
  }

  /** W3: what the stored text holds already must not come in again; what is carried over is listed as applied. */
  async #resolve(held: readonly PatchId[]): Promise<Attempt> {
    const stored = await this.#context.server.document(this.doc);
    // From here to #begin nothing may be awaited: text and patch ids have to belong to one moment.
    const local = this.editor.text;
    const merged = merge(this.#ancestor(stored, held), local, stored.text);
    if (merged.kind === "overlap") {
      this.#ask(stored, held, merged.overlaps);
      return "held";
    }
    const own = this.#lost.some(({ text }) => text === stored.text);
    this.#begin(stored, merged.text, this.#unflushed().filter((id) => !held.includes(id)));
    this.#context.activity.say(
      own ? `${this.doc}: the save whose answer was lost had been stored, as seq ${stored.seq}` : `${this.doc}: merged with what others saved, seq ${stored.seq}`,
      own ? "good" : "warn",
    );
    return "settled";
  }

  /** What both texts come from: the lost save, where the server turns out to have stored it. */
  #ancestor(stored: StoredDocument, held: readonly PatchId[]): string {
    const stands = this.#lost.findLast(({ text }) => text === stored.text);
    const isIn = ({ patchIds }: SentSave): boolean => patchIds.length > 0 && patchIds.every((id) => held.includes(id));
    const ancestor = stands ?? this.#lost.findLast(isIn);
    if (ancestor) return ancestor.text;
    return this.#stored.text;
  }

  /** A new incarnation begins with this text (W3). */
  #begin(stored: StoredDocument, text: string, carried: readonly PatchId[]): void {
    this.#stored = stored;
    this.#lost = [];
    this.#handle?.replaceContent({ baseSeq: stored.seq, carried });
    this.editor.replace(text);
    this.refreshMarks();
    this.#context.notices.clear(`save ${this.doc}`);
    this.touch();
  }

  #ask(stored: StoredDocument, held: readonly PatchId[], overlaps: readonly Overlap[]): void {
    const decide = (mine: boolean): void => {
      const carried = mine ? this.#unflushed().filter((id) => !held.includes(id)) : [];
      this.#begin(stored, mine ? this.editor.text : stored.text, carried);
      this.#context.activity.say(`${this.doc}: ${mine ? "kept this page's text over" : "took"} seq ${stored.seq}`, "warn");
      this.#loop.release();
    };
    this.#context.notices.show(
      `save ${this.doc}`,
      "warn",
      `${this.doc} was changed here and on the server, in the same place`,
      ["Nothing is saved until you choose.", ...overlaps.map(sides)],
      [
        { label: "Keep mine", choose: () => decide(true) },
        { label: `Take seq ${stored.seq}`, choose: () => decide(false) },
      ],
    );
  }

  #refused(code: string): void {
    this.#context.activity.say(`${this.doc}: the server refused the save: ${code}`, "bad");
    this.#context.notices.show(`save ${this.doc}`, "bad", `${this.doc} could not be saved`, [`The server says ${code}. Your text is still here.`], [
      {
        label: "Try again",
        choose: () => {
          this.#context.notices.clear(`save ${this.doc}`);
          this.#loop.release();
          void this.#loop.now();
        },
      },
    ]);
  }

  #offerReload(why: string): void {
    this.#context.activity.say(`${this.doc}: ${why}`, "bad");
    this.#context.notices.show(`save ${this.doc}`, "bad", `${this.doc} can no longer be saved from here`, [`${why} Copy what you need, then reload.`], [
      { label: "Reload", choose: () => location.reload() },
    ]);
  }
}

function sides({ local, stored }: Overlap): Node {
  const side = (title: string, text: string): Node =>
    element("figure", { class: "side" }, element("figcaption", {}, title), element("pre", {}, text === "" ? "(nothing)" : text));
  return element("div", { class: "sides" }, side("Here", local), side("On the server", stored));
}

function named(patchIds: readonly PatchId[]): string {
  if (patchIds.length === 0) return "";
  return `, with ${patchIds.length} ${patchIds.length === 1 ? "patch" : "patches"}`;
}
