/**
 * The text bodies of the protocol (§10) over JavaScript strings: offsets are UTF-16 code units, text is compared
 * unit by unit without normalisation, matches are counted without overlap from the start, and everything is literal.
 */

import { refuse } from "./errors.js";
import type { RefusalReason } from "./types.js";

/** One replacement in a text, in UTF-16 code units. */
export interface TextEditPlan {
  /** Where it begins. */
  readonly at: number;
  /** How many units go. */
  readonly delete: number;
  /** What comes in their place. */
  readonly insert: string;
}

/**
 * What a text edit does to this text. Throws what a handler should throw (`refuse(reason)`) where it does not apply,
 * and `malformed` where the body is no text edit.
 */
export function planTextEdit(text: string, body: unknown): TextEditPlan {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw no("malformed");
  }
  const field = (name: string): unknown => (Object.hasOwn(body, name) ? Reflect.get(body, name) : undefined);
  const string = (name: string): string => {
    const value = field(name);
    if (typeof value !== "string" || !isWellFormed(value)) {
      throw no("malformed");
    }
    return value;
  };
  switch (field("kind")) {
    case "text.replace": {
      const find = string("find");
      const at = occurrence(text, find, field("occurrence"));
      return { at, delete: find.length, insert: string("replace") };
    }
    case "text.insert": {
      const anchor = string("anchor");
      const insert = string("text");
      const at = occurrence(text, anchor, field("occurrence"));
      switch (field("where")) {
        case "before":
          return { at, delete: 0, insert };
        case "after":
          return { at: at + anchor.length, delete: 0, insert };
        default:
          throw no("malformed");
      }
    }
    case "text.append":
      return { at: text.length, delete: 0, insert: string("text") };
    case "text.prepend":
      return { at: 0, delete: 0, insert: string("text") };
    case "text.set":
      return { at: 0, delete: text.length, insert: string("text") };
    case "text.splice": {
      const at = count(field("at"));
      const length = count(field("delete"));
      if (!isBorder(text, at) || !isBorder(text, at + length)) {
        throw no("out_of_range");
      }
      const insert = string("insert");
      if (field("expect") !== undefined && text.slice(at, at + length) !== string("expect")) {
        throw no("expect_mismatch");
      }
      return { at, delete: length, insert };
    }
    default:
      throw no("malformed");
  }
}

/** The same edit without what it leaves as it was at both ends, so that cursors there do not move. A pair stays whole. */
export function tighten(text: string, plan: TextEditPlan): TextEditPlan {
  const gone = text.slice(plan.at, plan.at + plan.delete);
  const most = Math.min(gone.length, plan.insert.length);
  let head = 0;
  while (head < most && gone[head] === plan.insert[head]) {
    head += 1;
  }
  if (isHigh(gone.charCodeAt(head - 1))) {
    head -= 1;
  }
  let tail = 0;
  while (tail < most - head && gone[gone.length - 1 - tail] === plan.insert[plan.insert.length - 1 - tail]) {
    tail += 1;
  }
  if (isLow(gone.charCodeAt(gone.length - tail))) {
    tail -= 1;
  }
  return {
    at: plan.at + head,
    delete: gone.length - head - tail,
    insert: plan.insert.slice(head, plan.insert.length - tail),
  };
}

/** Whether a string holds no half of a surrogate pair. */
export function isWellFormed(text: string): boolean {
  // Missing in older engines; declared here alone, since a host's library may declare it too.
  const asked: string & { isWellFormed?(): boolean } = text;
  return asked.isWellFormed?.() ?? !LONE_SURROGATE.test(text);
}

/** The offset of the one match, or of the n-th, counted from 1. */
function occurrence(text: string, find: string, wanted: unknown): number {
  if (find === "") {
    throw no("malformed");
  }
  const first = text.indexOf(find);
  if (wanted === undefined) {
    if (first < 0) {
      throw no("anchor_not_found");
    }
    if (text.indexOf(find, first + find.length) >= 0) {
      throw no("anchor_ambiguous");
    }
    return first;
  }
  const nth = count(wanted);
  if (nth === 0) {
    throw no("malformed");
  }
  let at = first;
  for (let seen = 1; at >= 0 && seen < nth; seen += 1) {
    at = text.indexOf(find, at + find.length);
  }
  if (at < 0) {
    throw no("anchor_not_found");
  }
  return at;
}

function count(value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw no("malformed");
  }
  return value;
}

/** Whether an offset is within the text and not inside a surrogate pair. */
function isBorder(text: string, at: number): boolean {
  if (at > text.length) {
    return false;
  }
  const splits = isHigh(text.charCodeAt(at - 1)) && isLow(text.charCodeAt(at));
  return at === 0 || !splits;
}

/** The first half of a surrogate pair; false for NaN, which is no unit. */
const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
/** The second half. */
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

const no = (reason: RefusalReason): Error => refuse(reason);

/** With the `u` flag a whole pair is one code point, and no surrogate. */
const LONE_SURROGATE = /\p{Surrogate}/u;
