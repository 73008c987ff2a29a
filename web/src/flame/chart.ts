// The differential flame graph: two profiles in nanoseconds per request, searched, zoomed, grouped, exported.

import * as Plot from "@observablehq/plot";
import type { Profile } from "../data";
import { download, element } from "../dom";
import { ns, percent, signedNs } from "../format";
import { figure, isShown, type Chart, type View } from "../charts/view";
import { perfScript, speedscope } from "./export";
import { profilesOf } from "./packed";
import { Stage } from "./stage";
import { ancestry, findNode, layout, merge, pathOf, type Box, type Grouping, type Node, type Shown } from "./tree";

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
const GROUPINGS: [Grouping, string][] = [["function", "function"], ["package", "crate or package"], ["module", "module"]];
const HOW = "Click a box to zoom. By keyboard: arrows go from box to box, Enter zooms, Escape shows the whole.";

export const flame: Chart = (view) => {
  const profiles = profilesOf(view.run).filter((profile) => isShown(view, profile.arm));
  const of = (arm: string) => profiles.find((profile) => profile.arm === arm);
  const arms = profiles.map((profile) => profile.arm).filter((arm) => arm !== view.findings.baseline);
  const arm = arms.includes(view.state.arm) ? view.state.arm : arms[0];
  if (profiles.length === 0) return [];
  return [new Flame(view, of(view.findings.baseline), arm === undefined ? undefined : of(arm), arms).element];
};

class Flame {
  readonly element = element("div", { class: "flame" });
  /** Where in the graph the reader is, or what a search found. */
  private readonly words = element("p", { class: "about", role: "status" });
  private readonly stage = new Stage<Node>({ says: (box) => this.says(box.node), open: (box) => this.zoom(box?.node ?? this.root) }, "flame graph: arrows go from box to box, Enter zooms, Escape shows the whole");
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
    this.root = merge(a, b, this.grouping);
    this.at = findNode(this.root, view.state.zoom);
    this.element.append(this.tools(arms), this.words, this.stage.element);
    this.draw();
  }

  private tools(arms: string[]): HTMLElement {
    const select = (label: string, options: [string, string][], chosen: string, change: (value: string) => void) =>
      element("label", {}, `${label} `, element("select", { change: (event) => change((event.target as HTMLSelectElement).value) },
        ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text))));
    const turn = (arm: string) => tell(this.element, "choose", { arm, zoom: "" });
    return element(
      "div",
      { class: "tools" },
      ...(arms.length > 1 ? [select("arm", arms.map((arm) => [arm, arm]), this.b?.arm ?? "", turn)] : []),
      ...(this.a && this.b ? [select("show", SHOWN, this.shown, (value) => this.show(value as Shown))] : []),
      select("group by", GROUPINGS, this.grouping, (value) => this.group(value as Grouping)),
      element("label", {}, "search ", element("input", { type: "search", value: this.search, input: (event) => this.find((event.target as HTMLInputElement).value) })),
      element("button", { type: "button", click: () => this.zoom(this.root) }, "whole"),
      ...[this.a, this.b].filter((profile) => profile !== undefined).flatMap((profile) => [
        element("button", { type: "button", click: () => download(`${profile.arm}.speedscope.json`, speedscope(profile)) }, `save ${profile.arm} for speedscope`),
        element("button", { type: "button", click: () => download(`${profile.arm}.perf.txt`, perfScript(profile)) }, `save ${profile.arm} for Firefox Profiler`),
      ]),
    );
  }

  private show(shown: Shown): void {
    this.shown = shown;
    this.changed();
  }

  private group(grouping: Grouping): void {
    this.grouping = grouping;
    this.root = this.at = merge(this.a, this.b, grouping);
    this.changed();
  }

  private find(text: string): void {
    this.search = text;
    this.changed();
  }

  private zoom(to: Node): void {
    this.at = to;
    this.changed();
  }

  /** Draws itself and nothing else, and leaves to the address where the reader is. */
  private changed(): void {
    this.draw();
    tell(this.element, "keep", { flame: `${this.shown}.${this.grouping}`, search: this.search, zoom: pathOf(this.at) });
  }

  private draw(): void {
    const whole = layout(this.at, this.shown, 0)[0]?.to ?? 0;
    const boxes = layout(this.at, this.shown, (whole / this.view.width) * LEAST_PX);
    this.words.textContent = this.found(whole);
    if (boxes.length === 0) this.stage.empty("Nothing lies only there.");
    else this.stage.fill(this.graph(boxes, whole), { boxes, whole, axisPx: AXIS_PX });
  }

  private found(whole: number): string {
    if (!this.search) return this.at === this.root ? HOW : ancestry(this.at).map((node) => node.name).join(" → ");
    const hits = layout(this.at, this.shown, 0).filter((box) => this.hit(box.node) && !ancestry(box.node).slice(0, -1).some((node) => this.hit(node)));
    const sum = hits.reduce((total, box) => total + box.to - box.from, 0);
    return `“${this.search}”: ${ns(sum)} of ${ns(whole)} a request`;
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
    return figure(this.view, this.title(), `${boxes.length} functions; the table below has the largest`, {
      height: depth * ROW_PX + AXIS_PX,
      marginLeft: 0, marginRight: 0, marginTop: 0, marginBottom: AXIS_PX,
      x: { domain: [0, whole], label: null, tickFormat: (value: number) => (value === 0 ? "" : ns(value)), ticks: Math.max(2, this.view.width / 130) },
      y: { domain: [depth, 0], axis: null },
      color: { type: "identity" },
      marks: [
        Plot.rect(boxes, { x1: "from", x2: "to", y1: "depth", y2: (box: Box) => box.depth + 1, inset: 0.5, fill: (box: Box) => this.fill(box.node, most), className: "boxes" }),
        Plot.text(boxes.filter(label), { x: (box: Box) => (box.from + box.to) / 2, y: (box: Box) => box.depth + 0.5, text: label, fill: "#111", pointerEvents: "none" }),
      ],
    });
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
  private says(node: Node): string {
    const side = (profile: Profile | undefined, value: number, samples: number) =>
      profile ? `\n${profile.arm}: ${ns(value)} ± ${ns(profile.ns_per_request_of_sample * Math.sqrt(samples))} (n = ${samples} samples of ${profile.samples})` : "";
    const change = this.a && this.b ? `\ndifference ${signedNs(node.b - node.a)}${this.root.b - this.root.a ? `, ${percent((node.b - node.a) / (this.root.b - this.root.a))} of the gap` : ""}` : "";
    return `${node.name}\n${node.module}${node.kernel ? " (kernel)" : ""}${side(this.a, node.a, node.samples[0])}${side(this.b, node.b, node.samples[1])}${change}`;
  }
}

/** What was chosen inside a chart goes to the address: `choose` has the whole page drawn anew, `keep` has not. */
function tell(from: HTMLElement, event: "choose" | "keep", change: Record<string, string>): void {
  from.dispatchEvent(new CustomEvent(event, { detail: change, bubbles: true }));
}
