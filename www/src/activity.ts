/* The list of what happened, newest first, for eyes and screen readers alike. */

import { byId, clockTime, element } from "./dom.ts";

/** How an entry is coloured; the text says the same without it. */
export type Tone = "good" | "info" | "warn" | "bad";

/** How many entries are kept. */
const LIMIT = 200;

/** The list. */
export class Activity {
  readonly #list = byId("activity", HTMLOListElement);

  /** Adds an entry. */
  say(text: string, tone: Tone = "info"): void {
    const time = element("time", { datetime: new Date().toISOString(), class: "mono" }, clockTime(Date.now()));
    this.#list.prepend(element("li", { "data-tone": tone }, time, element("span", {}, text)));
    while (this.#list.childElementCount > LIMIT) this.#list.lastElementChild?.remove();
  }
}
