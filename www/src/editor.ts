/* The CodeMirror editor of one document, and the marks on what patches wrote into it. */

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { HighlightStyle, Language, defineLanguageFacet, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, StateEffect, StateField, Transaction, type ChangeSpec, type Extension } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, highlightActiveLine, keymap, placeholder, type DecorationSet } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { parser as markdown } from "@lezer/markdown";
import { shortId } from "./dom.ts";

/** What an editor reports. */
export interface EditorEvents {
  /** The text changed by any hand. */
  changed(): void;
  /** The person asked for a save. */
  save(): void;
}

/** Marks ranges as written by a patch that no confirmed save holds yet. */
const markPatch = StateEffect.define<{ readonly patchId: string; readonly ranges: readonly (readonly [number, number])[] }>();
/** Takes the marks of every patch away that is not in this set. */
const keepMarks = StateEffect.define<ReadonlySet<string>>();

const patchMarks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let next = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(markPatch)) {
        const { patchId, ranges } = effect.value;
        const mark = Decoration.mark({
          class: "cm-patch",
          attributes: { title: `patch ${shortId(patchId)}: not in the stored document yet`, "data-patch": patchId },
          patchId,
        });
        next = next.update({ add: ranges.filter(([from, to]) => to > from).map(([from, to]) => mark.range(from, to)), sort: true });
      } else if (effect.is(keepMarks)) {
        next = next.update({ filter: (_from, _to, mark) => effect.value.has(String((mark.spec as { patchId?: string }).patchId)) });
      }
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Colours come from the style sheet, so that dark mode needs no second theme. */
const highlight = HighlightStyle.define([
  { tag: tags.heading, class: "tok-heading" },
  { tag: tags.strong, class: "tok-strong" },
  { tag: tags.emphasis, class: "tok-emphasis" },
  { tag: [tags.monospace, tags.processingInstruction], class: "tok-mono" },
  { tag: [tags.link, tags.url], class: "tok-link" },
  { tag: tags.quote, class: "tok-quote" },
]);

/** The editor of one document. */
export class Editor {
  readonly view: EditorView;
  readonly #writable = new Compartment();
  #inside: string | undefined;

  constructor(parent: HTMLElement, label: string, events: EditorEvents) {
    this.view = new EditorView({ parent, state: EditorState.create({ extensions: this.#extensions(label, events) }) });
  }

  /** The text. */
  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Puts other content in, as one change that undo does not take back: it came from elsewhere. */
  replace(text: string): void {
    const change = smallestChange(this.text, text);
    if (change === undefined) return;
    this.view.dispatch({ changes: change, annotations: Transaction.addToHistory.of(false) });
  }

  /** Whether the person can type. */
  set writable(on: boolean) {
    this.view.dispatch({ effects: this.#writable.reconfigure(writable(on)) });
  }

  /** Runs a patch's edit; what it changes is marked with the patch's id. */
  patching<T>(patchId: string, edit: () => T): T {
    this.#inside = patchId;
    try {
      return edit();
    } finally {
      this.#inside = undefined;
    }
  }

  /** Keeps the marks of these patches only. */
  keepMarks(patchIds: ReadonlySet<string>): void {
    this.view.dispatch({ effects: keepMarks.of(patchIds) });
  }

  #extensions(label: string, events: EditorEvents): Extension[] {
    return [
      history(),
      drawSelection(),
      highlightActiveLine(),
      EditorView.lineWrapping,
      EditorState.lineSeparator.of("\n"),
      new Language(defineLanguageFacet(), markdown, [], "markdown").extension,
      syntaxHighlighting(highlight),
      this.#writable.of(writable(false)),
      placeholder("Nothing here yet. Type, or let an agent write."),
      patchMarks,
      EditorState.transactionExtender.of((transaction) => this.#extend(transaction)),
      EditorView.updateListener.of((update) => update.docChanged && events.changed()),
      keymap.of([
        {
          key: "Mod-s",
          preventDefault: true,
          run: () => {
            events.save();
            return true;
          },
        },
        ...defaultKeymap,
        ...historyKeymap,
        indentWithTab,
      ]),
      EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
    ];
  }

  #extend(transaction: Transaction): { effects: StateEffect<unknown> } | null {
    if (this.#inside === undefined || !transaction.docChanged) return null;
    const ranges: (readonly [number, number])[] = [];
    transaction.changes.iterChangedRanges((_fromA, _toA, fromB, toB) => ranges.push([fromB, toB]));
    return { effects: markPatch.of({ patchId: this.#inside, ranges }) };
  }
}

function writable(on: boolean): Extension {
  return [EditorState.readOnly.of(!on), EditorView.editable.of(on)];
}

/** The one change between two texts, from the first to the last difference, so that the caret stays where it can. */
export function smallestChange(before: string, after: string): ChangeSpec | undefined {
  if (before === after) return undefined;
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before.charCodeAt(head) === after.charCodeAt(head)) head += 1;
  let tail = 0;
  while (tail < most - head && before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)) tail += 1;
  return { from: head, to: before.length - tail, insert: after.slice(head, after.length - tail) };
}
