// Where data comes from, and what must hold of it before it is drawn: a file that was dropped on the page may be
// anything.

import { METRICS, type Findings, type PageData } from "./data";

/** The newest data this script can draw. */
const KNOWN_SCHEMA = 2;
/** The newest findings. */
const KNOWN_FINDINGS = 1;
const VERDICTS = ["faster", "slower", "equal", "inconclusive", "invalid"];

const ELEMENT = "whyslow-data";

type Fields = Record<string, unknown>;

/** The data of a page. */
export function ofPage(page: Document): PageData {
  const element = page.getElementById(ELEMENT);
  if (!element?.textContent) throw new Error("this is no page of whyslow report");
  return pageData(JSON.parse(element.textContent));
}

/** The data of a file: a page, its JSON, or the JSON of `whyslow analyse`. */
export function ofFile(text: string): PageData {
  if (text.trimStart().startsWith("<")) return ofPage(new DOMParser().parseFromString(text, "text/html"));
  const value = JSON.parse(text);
  if (!Array.isArray(value?.comparisons)) return pageData(value);
  const detail = { started_unix_s: 0, rounds: [], latency: [] };
  return { schema: KNOWN_SCHEMA, runs: [{ findings: [findings(value)], detail, profiles: [], ladder: null, damaged: [] }] };
}

/** `value` as the data of a page. An error says what is wrong with it. */
function pageData(value: unknown): PageData {
  const data = object(value, "the data");
  schema(data.schema, KNOWN_SCHEMA, "data");
  for (const run of array(data.runs, "runs")) {
    const all = array(object(run, "a run").findings, "findings");
    if (all.length === 0) throw new Error("a run in it has no findings");
    all.forEach(findings);
  }
  return value as PageData;
}

/** `value` as findings. */
function findings(value: unknown): Findings {
  const own = object(value, "findings");
  schema(own.schema, KNOWN_FINDINGS, "findings");
  text(own.run_id, "run_id");
  text(own.baseline, "baseline");
  object(own.host, "host");
  for (const arm of array(own.arms, "arms")) text(object(arm, "an arm").name, "an arm's name");
  for (const row of array(own.comparisons, "comparisons")) comparison(object(row, "a comparison"));
  // Pages of before have neither.
  for (const leaf of array(own.attribution ?? [], "leaves")) sized(object(leaf, "a leaf"), ["delta_ns", "delta_se_ns", "baseline_ns", "arm_ns"]);
  for (const wait of array(own.waits ?? [], "waits")) sized(object(wait, "a wait"), ["ns_per_request"]);
  return value as Findings;
}

function sized(row: Fields, names: string[]): void {
  text(row.arm, "the arm of a leaf or wait");
  if ("path" in row) array(row.path, "names of a leaf").forEach((name) => text(name, "a name of a leaf"));
  for (const name of names) if (!Number.isFinite(row[name])) throw new Error(`${name} of a leaf or wait is no number`);
}

function comparison(row: Fields): void {
  text(row.arm, "a comparison's arm");
  text(row.baseline, "a comparison's baseline");
  if (!Object.hasOwn(METRICS, String(row.metric))) throw new Error(`this page does not know the metric ${row.metric}`);
  if (!VERDICTS.includes(String(row.verdict))) throw new Error(`this page does not know the verdict ${row.verdict}`);
  for (const figure of ["ratio", "ci_low", "ci_high", "level"]) {
    if (row[figure] !== null && !Number.isFinite(row[figure])) throw new Error(`a comparison's ${figure} is no number`);
  }
}

function schema(found: unknown, known: number, what: string): void {
  if (!Number.isInteger(found)) throw new Error(`its ${what} name no schema: this is not of whyslow`);
  if (Number(found) > known) throw new Error(`its ${what} has schema ${found}; this page reads up to ${known}: open it with the whyslow that made it`);
}

function object(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${what} in it is no object: this is not of whyslow`);
  return value as Fields;
}

function array(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new Error(`it has no list of ${what}: this is not of whyslow`);
  return value;
}

function text(value: unknown, what: string): void {
  if (typeof value !== "string") throw new Error(`${what} in it is no text: this is not of whyslow`);
}
