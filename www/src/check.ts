/* Reading JSON that came from elsewhere: what is not as expected is said by its path, not discovered later. */

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** The value, if it is an object. */
export function fields(value: unknown, path: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError(`${path} is not an object`);
  return value as Fields;
}

/** The string under this name. */
export function text(of: Fields, name: string): string {
  const value = of[name];
  if (typeof value !== "string") throw new TypeError(`${name} is not a string`);
  return value;
}

/** The safe integer ≥ 0 under this name. */
export function count(of: Fields, name: string): number {
  const value = of[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new TypeError(`${name} is not a count`);
  return value;
}

/** The strings under this name. */
export function texts(of: Fields, name: string): readonly string[] {
  const value = of[name];
  if (!Array.isArray(value) || !value.every((entry): entry is string => typeof entry === "string")) {
    throw new TypeError(`${name} is not a list of strings`);
  }
  return value;
}
