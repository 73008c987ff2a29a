// Colours that stand at 3:1 or better on white and on the dark paper.

import type { Verdict } from "./data";

const ARMS = ["#5a6b7d", "#2f7fd0", "#c8660a", "#1f8f5f", "#a060c8", "#cf4a4a", "#178f9c", "#8a7f1d", "#d0508f"];

/** Arms keep their colour whichever of them is the baseline. */
export function armColours(names: string[]): { domain: string[]; range: string[] } {
  return { domain: names, range: names.map((_, index) => ARMS[index % ARMS.length]!) };
}

export const VERDICTS: Record<Verdict, string> = {
  faster: "var(--good)",
  slower: "var(--bad)",
  equal: "var(--even)",
  inconclusive: "var(--open)",
  invalid: "var(--bad)",
};

/** What ended waits, in the order in which they are drawn. */
export const waitColours = armColours;

/** Inside the difference that matters. */
export const BAND = "var(--band)";
