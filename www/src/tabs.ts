/* The documents as tabs: arrow keys, Home and End move between them; the chosen one is in the address. */

import { byId, element, setText } from "./dom.ts";

/** One tab. */
interface Tab {
  readonly doc: string;
  readonly button: HTMLButtonElement;
  readonly panel: HTMLDivElement;
  readonly dot: HTMLSpanElement;
  readonly note: HTMLSpanElement;
}

/** The tab list. */
export class Tabs {
  readonly #list = byId("tabs", HTMLDivElement);
  readonly #panels = byId("panels", HTMLDivElement);
  readonly #tabs: Tab[] = [];
  readonly #chosen: (doc: string) => void;
  #current = "";

  constructor(chosen: (doc: string) => void) {
    this.#chosen = chosen;
    this.#list.addEventListener("keydown", (event) => this.#key(event));
  }

  /** The document that is shown. */
  get current(): string {
    return this.#current;
  }

  /** Adds a tab and returns the element its editor goes into. */
  add(doc: string): HTMLDivElement {
    const index = this.#tabs.length;
    const dot = element("span", { class: "tab-dirty", "data-on": "false", "aria-hidden": "true" });
    const note = element("span", { class: "sr" });
    const button = element(
      "button",
      { type: "button", class: "tab", role: "tab", id: `tab-${index}`, "aria-controls": `panel-${index}`, "aria-selected": "false", tabindex: -1, "data-doc": doc },
      dot,
      doc,
      note,
    );
    button.addEventListener("click", () => this.choose(doc));
    const panel = element("div", { role: "tabpanel", id: `panel-${index}`, "aria-labelledby": `tab-${index}`, "data-doc": doc });
    panel.hidden = true;
    this.#list.append(button);
    this.#panels.append(panel);
    this.#tabs.push({ doc, button, panel, dot, note });
    return panel;
  }

  /** Shows the document of the address, or the first. */
  begin(): void {
    const wanted = decodeURIComponent(location.hash.slice(1));
    const tab = this.#tabs.find(({ doc }) => doc === wanted) ?? this.#tabs[0];
    if (tab) this.choose(tab.doc);
  }

  /** Shows this document. */
  choose(doc: string): void {
    this.#current = doc;
    for (const tab of this.#tabs) {
      const on = tab.doc === doc;
      tab.button.setAttribute("aria-selected", String(on));
      tab.button.tabIndex = on ? 0 : -1;
      tab.panel.hidden = !on;
    }
    history.replaceState(null, "", `#${doc}`);
    this.#chosen(doc);
  }

  /** Says whether the document has anything that is not stored. */
  setDirty(doc: string, dirty: boolean): void {
    const tab = this.#tabs.find((entry) => entry.doc === doc);
    if (!tab) return;
    tab.dot.dataset["on"] = String(dirty);
    setText(tab.note, dirty ? ", not saved" : "");
  }

  #key(event: KeyboardEvent): void {
    const at = this.#tabs.findIndex(({ doc }) => doc === this.#current);
    const last = this.#tabs.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at <= 0 ? last : at - 1, Home: 0, End: last }[event.key];
    const tab = to === undefined ? undefined : this.#tabs[to];
    if (!tab) return;
    event.preventDefault();
    this.choose(tab.doc);
    tab.button.focus();
  }
}
