// The differential flame graph: two profiles in nanoseconds per request, searched, zoomed, grouped, exported.

import * as Plot from "@observablehq/plot";
import type { Profile } from "../data";
import { download, element } from "../dom";
import { ns, percent, signedNs } from "../format";
import { figure, type Chart, type View } from "../charts/view";
import { perfScript, speedscope } from "./export";
import { ancestry, layout, merge, type Box, type Grouping, type Node, type Shown } from "./tree";

/** Height of a row of boxes. */
const ROW_PX = 20;
/** Height of the axis below them. */
const AXIS_PX = 28;
/** Narrower boxes cannot be seen. */
const LEAST_PX = 1;
/** Pixels that a letter of a name needs. */
const LETTER_PX = 7;
const SHOWN: [Shown, string][] = [
  ["difference", "difference"], ["a", "baseline"], ["b", "arm"], ["only a", "only in the baseline"], ["only b", "only in the arm"],
];

export const flame: Chart = (view) => {
  const profiles = view.run.profiles;
  const of = (arm: string) => profiles.find((profile) => profile.arm === arm);
  const arms = profiles.map((profile) => profile.arm).filter((arm) => arm !== view.findings.baseline);
  const arm = arms.includes(view.state.arm) ? view.state.arm : arms[0];
  if (profiles.length === 0) return [];
  return [new Flame(view, of(view.findings.baseline), arm === undefined ? undefined : of(arm), arms).element];
};

class Flame {
  readonly element = element("div", { class: "flame" });
  private readonly place = element("div");
  private shown: Shown = "difference";
  private grouping: Grouping = "function";
  private search: string;
  private root: Node;
  private at: Node;

  constructor(
    private readonly view: View,
    private readonly a: Profile | undefined,
    private readonly b: Profile | undefined,
    arms: string[],
  ) {
    const [shown, grouping] = view.state.flame.split(".");
    if (SHOWN.some(([name]) => name === shown)) this.shown = shown as Shown;
    if (grouping === "module" || grouping === "package") this.grouping = grouping;
    if (!a || !b) this.shown = a ? "a" : "b";
    this.search = view.state.search;
    this.root = this.at = merge(a, b, this.grouping);
    this.element.append(this.tools(arms), this.place);
    this.draw();
  }

  private tools(arms: string[]): HTMLElement {
    const select = (label: string, options: [string, string][], chosen: string, change: (value: string) => void) =>
      element("label", {}, `${label} `, element("select", { change: (event) => change((event.target as HTMLSelectElement).value) },
        ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text))));
    const keep = () => dispatchState(this.element, { flame: `${this.shown}.${this.grouping}` });
    return element(
      "div",
      { class: "tools" },
      ...(arms.length > 1 ? [select("arm", arms.map((arm) => [arm, arm]), this.b?.arm ?? "", (arm) => dispatchState(this.element, { arm }))] : []),
      ...(this.a && this.b ? [select("show", SHOWN, this.shown, (value) => { this.shown = value as Shown; keep(); })] : []),
      select("group by", [["function", "function"], ["package", "crate or package"], ["module", "module"]], this.grouping, (value) => { this.grouping = value as Grouping; keep(); }),
      element("label", {}, "search ", element("input", { type: "search", value: this.search, input: (event) => this.find((event.target as HTMLInputElement).value) })),
      element("button", { type: "button", click: () => this.zoom(this.root) }, "whole"),
      ...[this.a, this.b].filter((profile) => profile !== undefined).flatMap((profile) => [
        element("button", { type: "button", click: () => download(`${profile.arm}.speedscope.json`, speedscope(profile)) }, `${profile.arm} for speedscope`),
        element("button", { type: "button", click: () => download(`${profile.arm}.perf.txt`, perfScript(profile)) }, `${profile.arm} for Firefox Profiler`),
      ]),
    );
  }

  private find(text: string): void {
    this.search = text;
    this.draw();
  }

  private zoom(to: Node): void {
    this.at = to;
    this.draw();
  }

  private draw(): void {
    const whole = layout(this.at, this.shown, 0)[0]?.to ?? 0;
    const boxes = layout(this.at, this.shown, (whole / this.view.width) * LEAST_PX);
    if (boxes.length === 0) {
      this.place.replaceChildren(element("p", { class: "without" }, "Nothing lies only there."));
      return;
    }
    const drawing = this.graph(boxes, whole);
    this.place.replaceChildren(this.found(whole), drawing);
  }

  private found(whole: number): HTMLElement {
    const path = ancestry(this.at).map((node) => node.name).join(" → ");
    if (!this.search) return element("p", { class: "about" }, this.at === this.root ? "Click a box to zoom." : path);
    const hits = layout(this.at, this.shown, 0).filter((box) => this.hit(box.node) && !ancestry(box.node).slice(0, -1).some((node) => this.hit(node)));
    const sum = hits.reduce((total, box) => total + box.to - box.from, 0);
    return element("p", { class: "about", role: "status" }, `“${this.search}”: ${ns(sum)} of ${ns(whole)} a request`);
  }

  private hit(node: Node): boolean {
    return this.search !== "" && node.name.toLowerCase().includes(this.search.toLowerCase());
  }

  private graph(boxes: Box[], whole: number): HTMLElement {
    const depth = Math.max(...boxes.map((box) => box.depth)) + 1;
    const scale = this.view.width / whole;
    const letters = (box: Box) => Math.floor(((box.to - box.from) * scale - 6) / LETTER_PX);
    const label = (box: Box) => (letters(box) < 3 ? "" : box.node.name.length > letters(box) ? `${box.node.name.slice(0, letters(box) - 1)}…` : box.node.name);
    const most = Math.max(...boxes.map(({ node }) => Math.abs(node.b - node.a)), 1);
    const middle = (box: Box) => (box.from + box.to) / 2;
    const drawing = figure(this.view, this.title(), `${boxes.length} functions; the table below has the largest`, {
      height: depth * ROW_PX + 30,
      marginLeft: 0, marginRight: 0, marginTop: 0, marginBottom: AXIS_PX,
      x: { domain: [0, whole], label: null, tickFormat: (value: number) => ns(value), ticks: Math.max(2, this.view.width / 130) },
      y: { domain: [depth, 0], axis: null },
      color: { type: "identity" },
      marks: [
        Plot.rect(boxes, { x1: "from", x2: "to", y1: "depth", y2: (box: Box) => box.depth + 1, inset: 0.5, fill: (box: Box) => this.fill(box.node, most), className: "boxes" }),
        Plot.text(boxes.filter(label), { x: middle, y: (box: Box) => box.depth + 0.5, text: label, fill: "#111", pointerEvents: "none" }),
        Plot.tip(boxes, Plot.pointer({ x: middle, y: (box: Box) => box.depth + 0.5, title: (box: Box) => this.tip(box.node), maxRadius: 1000, lineWidth: 50 })),
      ],
    });
    // By place and not by element: what lies above a box, such as its tip, must not swallow the click.
    drawing.addEventListener("click", (event) => {
      const svg = drawing.querySelector<SVGElement>("svg:has(.boxes)")!.getBoundingClientRect();
      const at = ((event.clientX - svg.left) / svg.width) * whole;
      const row = Math.floor((event.clientY - svg.top) / (svg.height - AXIS_PX) * depth);
      const box = boxes.find((box) => box.depth === row && box.from <= at && at < box.to);
      if (box) this.zoom(box.node);
    }, { capture: true });
    return drawing;
  }

  private title(): string {
    const [a, b] = [this.a?.arm ?? "", this.b?.arm ?? ""];
    const words: Record<Shown, string> = {
      difference: `${b} against ${a}: red costs more, blue less, width is the larger of both`,
      a, b, "only a": `only in ${a}`, "only b": `only in ${b}`,
    };
    return `CPU per request by function, ${words[this.shown]}`;
  }

  /** Light enough for dark text in either scheme. */
  private fill(node: Node, most: number): string {
    if (this.search) return this.hit(node) ? "#e9a3ff" : "#c9ced4";
    if (this.shown !== "difference") return node.kernel ? "#f0b27a" : "#f5d76e";
    const share = (node.b - node.a) / most;
    const strength = Math.round(Math.min(1, Math.abs(share)) ** 0.5 * 70);
    return share > 0 ? `color-mix(in srgb, #ff6b5e ${strength}%, #e3e6ea)` : `color-mix(in srgb, #5aa9ff ${strength}%, #e3e6ea)`;
  }

  /** Samples are counts of rare events: their standard error is their root. Source: Poisson, see stats::poisson. */
  private tip(node: Node): string {
    const side = (profile: Profile | undefined, value: number, samples: number) =>
      profile ? `\n${profile.arm}: ${ns(value)} ± ${ns(profile.ns_per_request_of_sample * Math.sqrt(samples))} (n = ${samples} samples of ${profile.samples})` : "";
    const change = this.a && this.b ? `\ndifference ${signedNs(node.b - node.a)}${this.root.b - this.root.a ? `, ${percent((node.b - node.a) / (this.root.b - this.root.a))} of the gap` : ""}` : "";
    return `${node.name}\n${node.module}${node.kernel ? " (kernel)" : ""}${side(this.a, node.a, node.samples[0])}${side(this.b, node.b, node.samples[1])}${change}`;
  }
}

/** What was chosen inside a chart goes to the address. */
function dispatchState(from: HTMLElement, change: Record<string, string>): void {
  from.dispatchEvent(new CustomEvent("choose", { detail: change, bubbles: true }));
}
