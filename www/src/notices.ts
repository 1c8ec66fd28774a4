/* Things the person has to know or decide: one bar per key, gone when it is no longer true. */

import { button, byId, element } from "./dom.ts";
import type { Tone } from "./activity.ts";

/** What the person can do about it. */
export interface Choice {
  readonly label: string;
  readonly choose: () => void;
}

/** The bars under the header. */
export class Notices {
  readonly #region = byId("notices", HTMLDivElement);
  readonly #bars = new Map<string, HTMLElement>();

  /** Shows a notice in place of an earlier one with this key. */
  show(key: string, tone: Tone, title: string, detail: (Node | string)[], choices: readonly Choice[] = []): void {
    const bar = element(
      "section",
      { class: "notice", "data-tone": tone, "aria-label": title },
      element("div", { class: "notice-text" }, element("strong", {}, title), element("div", {}, ...detail)),
      element("div", { class: "notice-choices" }, ...choices.map(({ label, choose }) => button(label, choose))),
    );
    const before = this.#bars.get(key);
    if (before) before.replaceWith(bar);
    else this.#region.append(bar);
    this.#bars.set(key, bar);
  }

  /** Takes the notice with this key away. */
  clear(key: string): void {
    this.#bars.get(key)?.remove();
    this.#bars.delete(key);
  }
}
