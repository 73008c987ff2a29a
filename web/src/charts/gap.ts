// A difference in CPU time as nested boxes: what is saved left of the line, what is paid right of it; below them the waits.

import * as Plot from "@observablehq/plot";
import type { Leaf } from "../data";
import { element } from "../dom";
import { Stage } from "../flame/stage";
import { ns, signedNs } from "../format";
import { figure, hatching, isShown, type Chart, type View } from "./view";
import { waits } from "./waits";

type Side = "saved" | "paid";

/** A node of the tree with those of its leaves that lie on one side. */
export interface Cell {
  name: string;
  side: Side;
  /** What its leaves save or pay, in nanoseconds per request. */
  size: number;
  leaves: Leaf[];
  parent: Cell | null;
  children: Cell[];
}

/** A cell as it is drawn, in nanoseconds from the left end. */
interface Placed {
  node: Cell;
  depth: number;
  from: number;
  to: number;
}

const ROW_PX = 24;
const AXIS_PX = 28;
/** Pixels that a letter needs. */
const LETTER_PX = 7;
/** Letters below which a name says nothing. */
const LEAST_LETTERS = 3;
/** Narrower boxes cannot be seen. */
const LEAST_PX = 1;
const NOT_SAMPLED = "not sampled";
/** Light enough for dark text in either scheme. */
const FILL: Record<Side, string> = { saved: "#5cb894", paid: "#f0867a" };

export const gap: Chart = (view) => {
  const arms = [...new Set(view.findings.attribution?.map((leaf) => leaf.arm) ?? [])].filter((arm) => isShown(view, arm));
  const drawn = arms.map((arm) => ({ arm, sides: sides((view.findings.attribution ?? []).filter((leaf) => leaf.arm === arm)) }));
  // One scale for all arms, so that their boxes compare.
  const most = (side: Side) => Math.max(0, ...drawn.map(({ sides }) => sides[side].size));
  const span = { saved: most("saved"), paid: most("paid") };
  const pictures = span.saved + span.paid > 0 ? drawn.map(({ arm, sides }) => one(view, arm, sides, span)) : [];
  return [...pictures, ...waits(view)];
};

/** The leaves of one arm as two trees. */
export function sides(leaves: Leaf[]): Record<Side, Cell> {
  const tree = (side: Side) => {
    const root: Cell = { name: side, side, size: 0, leaves: [], parent: null, children: [] };
    for (const leaf of leaves.filter(({ delta_ns }) => (side === "paid" ? delta_ns > 0 : delta_ns < 0))) add(root, leaf);
    join(root);
    return root;
  };
  return { saved: tree("saved"), paid: tree("paid") };
}

function add(root: Cell, leaf: Leaf): void {
  let at = root;
  for (const name of [undefined, ...leaf.path]) {
    if (name !== undefined) {
      const known = at.children.find((child) => child.name === name);
      const next: Cell = known ?? { name, side: root.side, size: 0, leaves: [], parent: at, children: [] };
      if (!known) at.children.push(next);
      at = next;
    }
    at.size += Math.abs(leaf.delta_ns);
    at.leaves.push(leaf);
  }
}

/** A cell that is all of the one above it is one with it, as in the table; largest first. */
function join(cell: Cell): void {
  for (let only = cell.children[0]; cell.parent && only && cell.children.length === 1; only = cell.children[0]) {
    cell.name = `${cell.name} › ${only.name}`;
    cell.children = only.children;
    for (const child of cell.children) child.parent = cell;
  }
  cell.children.sort((a, b) => b.size - a.size);
  cell.children.forEach(join);
}

/** Every cell with its place: the largest next to the line at `zero`. */
function layout(cell: Cell, zero: number, depth = 0, offset = 0): Placed[] {
  const ends = [zero + offset, zero + offset + cell.size];
  const [from, to] = cell.side === "paid" ? ends : ends.map((end) => 2 * zero - end).reverse();
  const below: Placed[] = [];
  let at = offset;
  for (const child of cell.children) {
    below.push(...layout(child, zero, depth + 1, at));
    at += child.size;
  }
  return [{ node: cell, depth, from: from!, to: to! }, ...below];
}

function one(view: View, arm: string, both: Record<Side, Cell>, span: Record<Side, number>): HTMLElement {
  const whole = span.saved + span.paid;
  const scale = view.width / whole;
  const { saved, paid } = both;
  const boxes = [saved, paid].flatMap((side) => layout(side, span.saved)).filter((box) => (box.to - box.from) * scale >= LEAST_PX);
  const total = (name: string) => view.findings.arms.find((one) => one.name === name)?.cpu_ns_per_request?.total ?? 0;
  const { baseline } = view.findings;
  const title = `${arm} against ${baseline}: ${ns(total(baseline))} → ${ns(total(arm))} of CPU time a request, ${signedNs(paid.size - saved.size)}: ${ns(saved.size)} saved, ${ns(paid.size)} paid`;
  const stage = new Stage<Cell>({ says }, "CPU time saved and paid: arrows go from box to box");
  const hatch = hatching();
  const drawing = figure(view, title, `${boxes.filter(({ node }) => node.children.length === 0).length} parts; the table below has them as rows`, {
    height: (Math.max(...boxes.map((box) => box.depth)) + 1) * ROW_PX + AXIS_PX,
    marginLeft: 0, marginRight: 0, marginTop: 0, marginBottom: AXIS_PX,
    x: { domain: [-span.saved, span.paid], label: null, tickFormat: (value: number) => (value === 0 ? "0" : signedNs(value)), ticks: Math.max(2, view.width / 160), grid: true },
    y: { domain: [Math.max(...boxes.map((box) => box.depth)) + 1, 0], axis: null },
    color: { type: "identity" },
    marks: marks(boxes, span.saved, scale, hatch.fill),
  });
  stage.fill(hatch.into(drawing), { boxes, whole, axisPx: AXIS_PX });
  return element("div", { class: "gap" }, stage.element);
}

function marks(boxes: Placed[], zero: number, scale: number, hatch: string): Plot.Markish[] {
  const isHatched = ({ node }: Placed) => node.name.endsWith(NOT_SAMPLED);
  const text = (of: Placed[], fill: string) =>
    Plot.text(of.filter((box) => label(box, scale)), { x: (box: Placed) => (box.from + box.to) / 2 - zero, y: (box: Placed) => box.depth + 0.5, text: (box: Placed) => label(box, scale), fill, stroke: fill === "#111" ? undefined : "var(--paper)", strokeWidth: 6, pointerEvents: "none" });
  return [
    Plot.rect(boxes, { x1: (box: Placed) => box.from - zero, x2: (box: Placed) => box.to - zero, y1: "depth", y2: (box: Placed) => box.depth + 1, inset: 0.5, fill: (box: Placed) => (isHatched(box) ? hatch : fill(box)), className: "boxes" }),
    text(boxes.filter((box) => !isHatched(box)), "#111"),
    text(boxes.filter(isHatched), "var(--ink)"),
    Plot.ruleX([0], { stroke: "currentColor", strokeWidth: 2 }),
  ];
}

/** Paler further down, so that neighbouring rows are told apart. */
function fill({ node, depth }: Placed): string {
  return `color-mix(in srgb, ${FILL[node.side]} ${90 - 14 * Math.min(depth, 4)}%, #eef0f2)`;
}

/** The name with its size, or as much of it as there is room for. */
function label({ node, from, to }: Placed, scale: number): string {
  const letters = Math.floor(((to - from) * scale - 6) / LETTER_PX);
  const full = `${node.name} ${ns(node.size)}`;
  if (letters < LEAST_LETTERS) return "";
  if (full.length <= letters) return full;
  return node.name.length <= letters ? node.name : `${node.name.slice(0, letters - 1)}…`;
}

function says({ node }: Placed): string {
  const [leaf, ...others] = node.leaves;
  const first = node.parent ? `${node.name}: ${ns(node.size)} a request ${node.side}` : `all that is ${node.side}: ${ns(node.size)} a request`;
  if (!leaf || others.length > 0) return `${first}\nin ${node.leaves.length} parts`;
  const count = leaf.count ? `\n${leaf.count.baseline.toFixed(3)} → ${leaf.count.arm.toFixed(3)} times a request` : "";
  return `${first} ± ${ns(leaf.delta_se_ns)}\n${ns(leaf.baseline_ns)} → ${ns(leaf.arm_ns)}${count}${place(leaf)}`;
}

function place({ where }: Leaf): string {
  if (!where) return "";
  const file = where.file?.split("/").at(-1);
  return `\n${where.function}${file ? ` (${file}${where.line ? `:${where.line}` : ""})` : ""}`;
}
