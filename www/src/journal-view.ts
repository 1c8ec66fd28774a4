/* The tab's journal as a table that follows it live. Rows are kept and changed in place, so that nothing jumps. */

import type { RecordView } from "patchkeep";
import { byId, clockTime, element, setText, shortId } from "./dom.ts";
import type { Tone } from "./activity.ts";

/** How a record is named to a person: the state of §4, and where the text is by now. */
export interface RecordLabel {
  readonly text: string;
  readonly sign: string;
  readonly tone: Tone | "idle";
}

/** The badge of a record. */
export function recordLabel(record: RecordView): RecordLabel {
  switch (record.state) {
    case "applying":
      return { text: record.current ? "applying" : "in question", sign: "…", tone: "warn" };
    case "applied":
      if (record.flushed) return { text: "saved", sign: "✓", tone: "good" };
      return record.leftBehind ? { text: "left behind", sign: "○", tone: "warn" } : { text: "applied", sign: "●", tone: "info" };
    case "refused":
      return { text: "refused", sign: "×", tone: "bad" };
    case "unknown":
      return { text: "unknown", sign: "?", tone: "bad" };
  }
}

/** A column: its head, and what it says of a record. */
interface Column {
  readonly head: string;
  readonly name: string;
  readonly class?: string;
  readonly cell: (record: RecordView, tabId: string) => (Node | string)[];
}

const COLUMNS: readonly Column[] = [
  { head: "Time", name: "time", cell: timeCell },
  { head: "Patch", name: "patch", cell: patchCell },
  { head: "State", name: "state", cell: stateCell },
  { head: "Kept", name: "kept", class: "mark", cell: (record) => [markCell(record.kept)] },
  { head: "Flushed", name: "flushed", class: "mark", cell: (record) => [markCell(record.flushed)] },
  { head: "Confirmed", name: "confirmed", cell: (record) => [record.confirmed ?? "–"] },
  { head: "Delivery", name: "delivery", class: "number", cell: (record) => [String(record.delivery)] },
  { head: "Replayed", name: "replayed", class: "number", cell: (record) => [record.replays === 0 ? "–" : `${record.replays}×`] },
  { head: "Recipient", name: "recipient", cell: recipientCell },
];

/** The table. */
export class JournalView {
  readonly #root = byId("journal", HTMLDivElement);
  readonly #count = byId("journal-count", HTMLSpanElement);
  readonly #body = element("tbody", { role: "rowgroup" });
  readonly #rows = new Map<string, HTMLTableRowElement>();
  readonly #tabId: string;
  readonly #table: HTMLElement;
  readonly #empty: HTMLElement;

  constructor(tabId: string, doc: string) {
    this.#tabId = tabId;
    this.#table = element(
      "table",
      { class: "journal-table", role: "table", "aria-labelledby": "journal-title" },
      element(
        "thead",
        { role: "rowgroup" },
        element("tr", { role: "row" }, ...COLUMNS.map((column) => element("th", { scope: "col", role: "columnheader", class: column.class }, column.head))),
      ),
      this.#body,
    );
    this.#empty = element(
      "div",
      {},
      element("p", { class: "empty" }, "No patch has come to this tab yet. From a second terminal:"),
      element("pre", { class: "command", tabindex: 0, "aria-label": "A command to try" }, `cargo xtask agent -- patch ${doc} \\\n  --find "colour" --replace "color"`),
    );
    this.#root.replaceChildren(this.#empty, this.#table);
    this.show([]);
  }

  /** Shows these records, newest first. */
  show(records: readonly RecordView[]): void {
    this.#empty.hidden = records.length > 0;
    this.#table.hidden = records.length === 0;
    const open = records.filter((record) => record.state === "applying" || record.state === "unknown" || (record.state === "applied" && !record.flushed)).length;
    setText(this.#count, records.length === 0 ? "no records" : `${records.length} ${records.length === 1 ? "record" : "records"}, ${open} open`);
    const seen = new Set<string>();
    const sorted = [...records].sort((a, b) => b.receivedAt - a.receivedAt || (a.patchId < b.patchId ? 1 : -1));
    sorted.forEach((record, index) => {
      const key = `${record.doc} ${record.patchId}`;
      seen.add(key);
      const row = this.#row(key);
      this.#fill(row, record);
      if (this.#body.children[index] !== row) this.#body.insertBefore(row, this.#body.children[index] ?? null);
    });
    for (const [key, row] of this.#rows) {
      if (seen.has(key)) continue;
      row.remove();
      this.#rows.delete(key);
    }
  }

  #row(key: string): HTMLTableRowElement {
    const known = this.#rows.get(key);
    if (known) return known;
    const row = element("tr", { role: "row", class: "fresh" }, ...COLUMNS.map((column) => element("td", { role: "cell", class: column.class, "data-label": column.head, "data-cell": column.name })));
    this.#rows.set(key, row);
    return row;
  }

  #fill(row: HTMLTableRowElement, record: RecordView): void {
    const version = JSON.stringify(record);
    if (row.dataset["version"] === version) return;
    row.dataset["version"] = version;
    row.dataset["patch"] = record.patchId;
    row.dataset["state"] = record.state;
    COLUMNS.forEach((column, index) => {
      row.cells[index]?.replaceChildren(...column.cell(record, this.#tabId));
    });
  }
}

function timeCell(record: RecordView): Node[] {
  const time = clockTime(record.receivedAt);
  return [element("time", { datetime: new Date(record.receivedAt).toISOString(), title: time, class: "mono" }, time.slice(0, 8))];
}

function patchCell(record: RecordView): Node[] {
  return [element("code", { title: record.patchId }, shortId(record.patchId)), element("span", { class: "second" }, record.doc)];
}

/** Who it was handed to: the tab, and which lineage of the content. */
function recipientCell(record: RecordView, tabId: string): Node[] {
  const ids = element("code", { title: `tab ${tabId}, incarnation ${record.incarnation}` }, `${tabId.slice(-4)}/${record.incarnation.slice(-4)}`);
  return record.current ? [ids] : [ids, element("span", { class: "second" }, "earlier")];
}

function stateCell(record: RecordView): Node[] {
  const { text, sign, tone } = recordLabel(record);
  const badge = element("span", { class: "badge", "data-tone": tone }, element("span", { class: "badge-sign", "aria-hidden": "true" }, sign), text);
  return record.reason === undefined ? [badge] : [badge, element("span", { class: "second wrap" }, record.reason)];
}

/** One of the two marks of J6. */
function markCell(on: boolean): Node {
  return element("span", { class: "mark-value", "data-on": String(on) }, on ? "yes" : "no");
}
