// Two profiles as one tree, in nanoseconds per request.

import type { Frame, Profile } from "../data";

export type Grouping = "function" | "package" | "module";
export type Shown = "difference" | "a" | "b" | "only a" | "only b";

export interface Node {
  name: string;
  module: string;
  kernel: boolean;
  /** Of the baseline, in nanoseconds per request, callees included. */
  a: number;
  /** Of the arm. */
  b: number;
  /** Samples behind `a` and `b`. */
  samples: [a: number, b: number];
  parent: Node | null;
  children: Map<string, Node>;
}

export interface Box {
  node: Node;
  depth: number;
  from: number;
  to: number;
}

function node(frame: Frame, parent: Node | null): Node {
  return { ...frame, a: 0, b: 0, samples: [0, 0], parent, children: new Map() };
}

/** The tree of both profiles; `b` may be missing. */
export function merge(a: Profile | undefined, b: Profile | undefined, grouping: Grouping): Node {
  const root = node({ name: "all", module: "", kernel: false }, null);
  for (const [side, profile] of [["a", a], ["b", b]] as const) {
    for (const stack of profile?.stacks ?? []) {
      add(root, path(profile!, stack.frames, grouping), side, stack.samples, profile!.ns_per_request_of_sample);
    }
  }
  return root;
}

/** The frames of a stack; by package or module, neighbours of one are one. Without callers only the innermost counts. */
function path(profile: Profile, indices: number[], grouping: Grouping): Frame[] {
  const known = indices.filter((index) => profile.frames[index] !== undefined);
  const all = (profile.callers ? known : known.slice(-1)).map((index) => grouped(profile, index, grouping));
  return grouping === "function" ? all : all.filter((frame, index) => frame.name !== all[index - 1]?.name);
}

/** A frame under the name of its group. */
function grouped(profile: Profile, index: number, grouping: Grouping): Frame {
  const frame = profile.frames[index]!;
  if (grouping === "function") return frame;
  const name = grouping === "package" ? profile.packages?.[profile.package_of?.[index] ?? -1] : undefined;
  // A package may be spread over several modules; as one group it has one.
  return { ...frame, name: name ?? frame.module, module: name === undefined ? frame.module : "" };
}

function add(root: Node, frames: Frame[], side: "a" | "b", samples: number, each: number): void {
  let at: Node = root;
  for (const frame of [null, ...frames]) {
    if (frame) {
      const key = `${frame.module}\n${frame.name}`;
      let next = at.children.get(key);
      if (!next) at.children.set(key, (next = node(frame, at)));
      at = next;
    }
    at[side] += samples * each;
    at.samples[side === "a" ? 0 : 1] += samples;
  }
}

/** How wide a node is drawn. */
function width(one: Node, shown: Shown): number {
  switch (shown) {
    case "a": return one.a;
    case "b": return one.b;
    case "only a": return exclusive(one, "a", "b");
    case "only b": return exclusive(one, "b", "a");
    case "difference": return Math.max(one.a, one.b);
  }
}

/** What of a node lies in functions that the other side never met on this path. */
function exclusive(one: Node, side: "a" | "b", other: "a" | "b"): number {
  if (one[other] === 0) return one[side];
  let sum = 0;
  for (const child of one.children.values()) sum += exclusive(child, side, other);
  return sum;
}

/** Boxes of the part of the tree under `root` that is at least `least` wide, callers above callees. */
export function layout(root: Node, shown: Shown, least: number): Box[] {
  const boxes: Box[] = [];
  const place = (one: Node, depth: number, from: number) => {
    const wide = width(one, shown);
    if (wide < least || wide === 0) return;
    boxes.push({ node: one, depth, from, to: from + wide });
    let at = from;
    // In a difference children may together be wider than their caller: they are drawn in proportion.
    const children = [...one.children.values()].sort((x, y) => (x.name < y.name ? -1 : 1));
    const sum = children.reduce((total, child) => total + width(child, shown), 0);
    const scale = sum > wide ? wide / sum : 1;
    for (const child of children) {
      placeScaled(child, depth + 1, at, scale);
      at += width(child, shown) * scale;
    }
  };
  const placeScaled = (one: Node, depth: number, from: number, scale: number) => {
    const start = boxes.length;
    place(one, depth, 0);
    for (const box of boxes.slice(start)) {
      box.from = from + box.from * scale;
      box.to = from + box.to * scale;
    }
  };
  place(root, 0, 0);
  return boxes;
}

/** The nodes from the root down to `one`. */
export function ancestry(one: Node): Node[] {
  return one.parent ? [...ancestry(one.parent), one] : [one];
}

/** How an address names a node: a few letters for each step down to it. */
export function pathOf(one: Node): string {
  return ancestry(one).slice(1).map(letters).join(".");
}

/** The node that `path` names, or its last ancestor that this tree has. */
export function findNode(root: Node, path: string): Node {
  let at = root;
  for (const step of path.split(".")) {
    const next = [...at.children.values()].find((child) => letters(child) === step);
    if (!next) break;
    at = next;
  }
  return at;
}

/** Of the function and not of its place, so that a link finds it again beside another arm. Source: FNV-1a, 32 bits. */
function letters(one: Node): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(`${one.module}\n${one.name}`)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash.toString(36);
}
