/* Three texts into one: what was saved last, what is in the editor, what the server holds now. */

import { diff3Merge } from "node-diff3";

/** One place both sides changed, differently. */
export interface Overlap {
  readonly local: string;
  readonly stored: string;
}

/** What came of a merge. */
export type Merge = { readonly kind: "clean"; readonly text: string } | { readonly kind: "overlap"; readonly overlaps: readonly Overlap[] };

/**
 * Merges by words. A change that both sides made alike is taken once, so that a patch the stored text holds already
 * does not come in again (W3).
 *
 * Nothing is decided where both sides changed the same words differently: the person is asked.
 */
export function merge(base: string, local: string, stored: string): Merge {
  if (local === stored || local === base) return { kind: "clean", text: stored };
  if (stored === base) return { kind: "clean", text: local };
  const overlaps: Overlap[] = [];
  let text = "";
  for (const region of diff3Merge(words(local), words(base), words(stored), { excludeFalseConflicts: true })) {
    if (region.ok) text += region.ok.join("");
    if (region.conflict) overlaps.push({ local: region.conflict.a.join(""), stored: region.conflict.b.join("") });
  }
  return overlaps.length > 0 ? { kind: "overlap", overlaps } : { kind: "clean", text };
}

/** Words, runs of spaces, line ends and single other characters; joined they are the text again. */
function words(text: string): string[] {
  return text.match(/[\p{L}\p{N}\p{M}_]+|\n|[^\S\n]+|[^\p{L}\p{N}\p{M}_\s]/gu) ?? [];
}
