/* Building and finding elements without a framework. */

/** Attributes; `undefined` and `false` leave one out. `data-*` and `aria-*` go in by their own names. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Makes an element with attributes and children; strings become text nodes, never markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/** The element of this id, which is part of `index.html`. */
export function byId<T extends HTMLElement>(id: string, kind: abstract new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`index.html has no ${kind.name} #${id}`);
  return found;
}

/** Sets the text only if it differs, so that live regions do not say it again. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

/** The first characters of an id: enough to tell two apart by eye. UUIDv7s of one moment differ at their end alone. */
export function shortId(id: string): string {
  return id.length <= 12 ? id : `${id.slice(0, 4)}…${id.slice(-4)}`;
}

/** A button. */
export function button(label: string, onPress: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = element("button", { type: "button", class: "button", ...attributes }, label);
  made.addEventListener("click", onPress);
  return made;
}

/** `14:03:27.512`, in the person's time zone. */
export function clockTime(ms: number): string {
  const date = new Date(ms);
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}
