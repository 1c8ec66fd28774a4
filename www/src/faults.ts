/* The switches that make the server misbehave. */

import { button, byId, element, setText } from "./dom.ts";
import type { Activity } from "./activity.ts";
import type { FaultChange, FaultState, Server } from "./server.ts";

/** A fault that strikes once. */
interface Switch {
  readonly label: string;
  readonly hint: string;
  readonly value: (state: FaultState) => number;
  readonly change: (on: boolean) => FaultChange;
}

const SWITCHES: readonly Switch[] = [
  {
    label: "Lose the next acknowledgement",
    hint: "The caller's connection goes with it; its retry must not change the text again.",
    value: (state) => state.loseNextAck,
    change: (on) => ({ lose_next_ack: on ? 1 : 0 }),
  },
  {
    label: "Lose the next answer",
    hint: "The write is done and its caller is never told.",
    value: (state) => state.loseNextAnswer,
    change: (on) => ({ lose_next_answer: on ? 1 : 0 }),
  },
  {
    label: "Lose the next answer to a save",
    hint: "The text is stored and this page does not know.",
    value: (state) => state.loseNextSaveAnswer,
    change: (on) => ({ lose_next_save_answer: on ? 1 : 0 }),
  },
];

const DELAYS: readonly (readonly [number, string])[] = [
  [0, "not at all"],
  [250, "¼ s"],
  [1000, "1 s"],
  [3000, "3 s"],
];

/** Switches are used up by the server, so they are read again this often while the page is visible, in ms. */
const REFRESH_MS = 3000;

/** The panel. */
export class FaultPanel {
  readonly #server: Server;
  readonly #activity: Activity;
  readonly #body = byId("faults", HTMLDivElement);
  readonly #count = byId("faults-count", HTMLSpanElement);
  readonly #inputs: HTMLInputElement[] = [];
  #delay: HTMLSelectElement | undefined;

  constructor(server: Server, activity: Activity) {
    this.#server = server;
    this.#activity = activity;
  }

  /** Builds the panel, or says that the server has no such switches. */
  async start(signal: AbortSignal): Promise<void> {
    const state = await this.#server.faults();
    if (!state) {
      this.#body.replaceChildren(element("p", { class: "empty" }, "This server was started without ", element("code", {}, "--faults"), "."));
      return;
    }
    this.#build();
    this.#show(state);
    const timer = setInterval(() => document.visibilityState === "visible" && void this.refresh(), REFRESH_MS);
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  }

  /** Reads the switches again. */
  async refresh(): Promise<void> {
    if (this.#inputs.length === 0) return;
    try {
      const state = await this.#server.faults();
      if (state) this.#show(state);
    } catch {
      // The connection chip says that the server is away; the switches keep their last known state.
    }
  }

  #build(): void {
    const rows = SWITCHES.map((entry, index) => {
      const input = element("input", { type: "checkbox", role: "switch", id: `fault-${index}`, "aria-describedby": `fault-${index}-hint` });
      input.addEventListener("change", () => void this.#set(entry.change(input.checked), `${entry.label}: ${input.checked ? "on" : "off"}`));
      this.#inputs.push(input);
      return element(
        "div",
        { class: "switch" },
        input,
        element("label", { for: input.id }, entry.label),
        element("p", { id: `fault-${index}-hint`, class: "hint" }, entry.hint),
      );
    });
    const delay = element("select", { id: "fault-delay" }, ...DELAYS.map(([ms, label]) => element("option", { value: ms }, label)));
    delay.addEventListener("change", () => void this.#set({ delay_ms: Number(delay.value) }, `frames to tabs are delayed: ${delay.value} ms`));
    this.#delay = delay;
    this.#body.replaceChildren(
      ...rows,
      element("div", { class: "field" }, element("label", { for: "fault-delay" }, "Delay frames to tabs"), delay),
      element(
        "div",
        { class: "buttons" },
        button("Cut the sockets", () => void this.#set({ cut: true }, "every socket was cut"), { id: "fault-cut" }),
        button("Restart the server", () => void this.#set({ restart: true }, "the server lost its memory and started anew"), { id: "fault-restart" }),
      ),
    );
  }

  async #set(change: FaultChange, said: string): Promise<void> {
    try {
      const state = await this.#server.setFaults(change);
      if (state) this.#show(state);
      this.#activity.say(said, "warn");
    } catch (error) {
      this.#activity.say(`the fault switch was not set: ${error instanceof Error ? error.message : String(error)}`, "bad");
      await this.refresh();
    }
  }

  #show(state: FaultState): void {
    let armed = state.delayMs > 0 ? 1 : 0;
    SWITCHES.forEach((entry, index) => {
      const input = this.#inputs[index];
      const on = entry.value(state) > 0;
      if (input && input.checked !== on) input.checked = on;
      if (on) armed += 1;
    });
    if (this.#delay) {
      const known = DELAYS.some(([ms]) => ms === state.delayMs);
      if (!known) this.#delay.append(element("option", { value: state.delayMs }, `${state.delayMs} ms`));
      this.#delay.value = String(state.delayMs);
    }
    setText(this.#count, armed === 0 ? "none armed" : `${armed} armed`);
  }
}
