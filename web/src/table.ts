// Tables that Rust wrote, made to sort, to filter and to be copied.

import { copy, element } from "./dom";
import { METRICS } from "./data";
import type { State } from "./state";

/** Sizes of the units that figures carry, so that a column sorts by what it means. */
const UNITS: Record<string, number> = {
  ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, KiB: 1024, MiB: 1048576, GiB: 1073741824, "%": 0.01,
};

/** A date, and where it is told the time of day, as `2027-01-15 08:00`. */
const DATE = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?/;

/** What a cell sorts by: a date, or its first figure with its unit, or nothing. */
export function sortKey(text: string): number | null {
  const date = DATE.exec(text.trim());
  if (date) return Date.parse(`${date[1]}T${date[2] ?? "00:00"}Z`);
  const match = /^[[x±]?([+-]?\d[\d.]*)\s*(ns|µs|ms|s|KiB|MiB|GiB|%)?(?:[^\w]|$)/.exec(text.trim());
  return match ? Number(match[1]) * (UNITS[match[2] ?? ""] ?? 1) : null;
}

export function enhance(table: HTMLTableElement): void {
  for (const [column, cell] of [...table.tHead!.rows[0]!.cells].entries()) {
    const button = element("button", { type: "button", class: "sort", click: () => turn(table, column) }, ...cell.childNodes);
    cell.append(button);
  }
  const tools = element(
    "div",
    { class: "tools of-table" },
    element("button", { type: "button", click: () => void copy(markdown(table)) }, "copy as Markdown"),
    element("button", { type: "button", click: () => void copy(csv(table)) }, "copy as CSV"),
  );
  table.closest(".scroll")?.after(tools);
}

/** Sorts by a column, the other way where it was sorted by it already, and leaves to the address how. */
function turn(table: HTMLTableElement, column: number): void {
  const down = table.tHead!.rows[0]!.cells[column]!.getAttribute("aria-sort") === "ascending";
  sort(table, column, down);
  table.dispatchEvent(new CustomEvent("keep", { detail: { sort: `${name(table)}.${column}.${down ? "down" : "up"}` }, bubbles: true }));
}

/** Sorts as the address says, if it speaks of this table. */
export function sortAs(table: HTMLTableElement, { sort: wanted }: State): void {
  const [, of, column, way] = /^(.*)\.(\d+)\.(up|down)$/s.exec(wanted) ?? [];
  if (of === name(table) && table.tHead!.rows[0]!.cells[Number(column)]) sort(table, Number(column), way === "down");
}

function name(table: HTMLTableElement): string {
  return table.caption?.textContent ?? "";
}

function sort(table: HTMLTableElement, column: number, down: boolean): void {
  const header = table.tHead!.rows[0]!.cells[column]!;
  for (const cell of table.tHead!.rows[0]!.cells) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const text = (row: HTMLTableRowElement) => row.cells[column]?.textContent ?? "";
  const rows = [...table.tBodies[0]!.rows].sort((a, b) => compare(text(a), text(b)) * (down ? -1 : 1));
  table.tBodies[0]!.append(...rows);
}

/** Figures by size, before words by letter. */
function compare(a: string, b: string): number {
  const [x, y] = [sortKey(a), sortKey(b)];
  if (x !== null && y !== null) return x - y;
  return x !== null ? -1 : y !== null ? 1 : a.localeCompare(b);
}

/** A table that only scripts write, in the frame that Rust's have. */
export function written(title: string, header: string[], rows: string[][]): HTMLElement {
  const cell = (text: string, index: number) => (index === 0 ? element("th", { scope: "row" }, text) : element("td", {}, text));
  const made = element(
    "table",
    {},
    element("caption", {}, title),
    element("thead", {}, element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map(cell)))),
  );
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, made);
}

/** Hides what is about arms that are not shown. */
export function filterArms({ off }: State): void {
  for (const part of document.querySelectorAll<HTMLElement>("[data-arm]")) part.hidden = off.includes(part.dataset.arm ?? "");
}

/** Hides rows of arms that are not shown and of metrics that were not chosen. */
export function filter(table: HTMLTableElement, state: State): void {
  const names = columns(table);
  const [arm, metric] = [names.findIndex((name) => name.startsWith("arm")), names.indexOf("metric")];
  const wanted = state.metric && METRICS[state.metric];
  for (const row of table.tBodies[0]!.rows) {
    const hidden = state.off.includes(row.cells[arm]?.textContent ?? "");
    const other = wanted !== "" && metric >= 0 && row.cells[metric]?.textContent !== wanted;
    row.hidden = hidden || other;
  }
}

function columns(table: HTMLTableElement): string[] {
  return [...table.tHead!.rows[0]!.cells].map((cell) => cell.textContent ?? "");
}

function shown(table: HTMLTableElement): string[][] {
  const rows = [...table.tBodies[0]!.rows].filter((row) => !row.hidden);
  return rows.map((row) => [...row.cells].map((cell) => cell.textContent ?? ""));
}

export function markdown(table: HTMLTableElement): string {
  const cell = (text: string) => text.replace(/[\\|*`[<&]/g, (c) => (c === "<" ? "&lt;" : c === "&" ? "&amp;" : `\\${c}`));
  const line = (cells: string[]) => `| ${cells.map(cell).join(" | ")} |`;
  const header = columns(table);
  return [line(header), `|${header.map(() => "---|").join("")}`, ...shown(table).map(line), ""].join("\n");
}

/** Source: RFC 4180. A cell that a spreadsheet would take for a formula is kept as text by a quote before it. */
export function csv(table: HTMLTableElement): string {
  const guarded = (text: string) => (/^[=@\t\r]/.test(text) || /^[+-](?![\d.]|$)/.test(text) ? `'${text}` : text);
  const cell = (text: string) => (/[",\r\n]/.test(guarded(text)) ? `"${guarded(text).replaceAll('"', '""')}"` : guarded(text));
  return [columns(table), ...shown(table)].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
