// Where the boxes of a flame graph are pointed at, clicked, and walked through by keyboard.

import { element } from "../dom";
/** Something that is drawn as a box, in the unit of the drawing. */
export interface Boxed<N> {
  node: N;
  depth: number;
  from: number;
  to: number;
}

interface Drawn<N> {
  boxes: Boxed<N>[];
  /** Width of the drawing, in the unit of the boxes. */
  whole: number;
  /** Height of the axis below the boxes. */
  axisPx: number;
}

interface Owner<N> {
  /** What a box tells. */
  says: (box: Boxed<N>) => string;
  /** A box was chosen; none: the whole. */
  open?: (box: Boxed<N> | undefined) => void;
}

/** Space between a box and what it tells. */
const GAP_PX = 6;

export class Stage<N extends { parent: N | null }> {
  readonly element = element("div", { class: "stage", role: "application", tabindex: "0" });
  private readonly mark = element("div", { class: "mark", hidden: true });
  private readonly tip = element("div", { class: "tip", role: "status", hidden: true });
  private drawn: Drawn<N> = { boxes: [], whole: 1, axisPx: 0 };
  private svg: SVGElement | null = null;
  private current: Boxed<N> | undefined;

  constructor(private readonly owner: Owner<N>, label: string) {
    this.element.setAttribute("aria-label", label);
    this.element.addEventListener("pointermove", (event) => this.point(event));
    this.element.addEventListener("pointerleave", () => this.rest());
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("keydown", (event) => this.press(event));
    this.element.addEventListener("focus", () => this.rest());
    this.element.addEventListener("blur", () => this.hide());
  }

  empty(words: string): void {
    this.svg = null;
    this.drawn = { boxes: [], whole: 1, axisPx: 0 };
    this.current = undefined;
    this.element.replaceChildren(element("p", { class: "without" }, words));
  }

  /** Another drawing; the reader stands on its first box, which is the one that was zoomed to. */
  fill(drawing: HTMLElement, drawn: Drawn<N>): void {
    this.drawn = drawn;
    this.svg = drawing.querySelector<SVGElement>("svg:has(.boxes)");
    this.current = drawn.boxes[0];
    this.element.replaceChildren(drawing, this.mark, this.tip);
    this.rest();
  }

  /** By place and not by element: names lie above boxes, and a narrow box has its middle far from a wide neighbour's edge. */
  private under(event: MouseEvent): Boxed<N> | undefined {
    if (!this.svg) return undefined;
    const { left, top, width } = this.svg.getBoundingClientRect();
    const at = ((event.clientX - left) / width) * this.drawn.whole;
    const row = Math.floor((event.clientY - top) / this.rowPx());
    return this.drawn.boxes.find((box) => box.depth === row && box.from <= at && at < box.to);
  }

  private rowPx(): number {
    const rows = Math.max(...this.drawn.boxes.map((box) => box.depth)) + 1;
    return (this.svg!.getBoundingClientRect().height - this.drawn.axisPx) / rows;
  }

  private point(event: MouseEvent): void {
    const box = this.under(event);
    if (box) this.tell(box, event.clientX);
    else this.rest();
  }

  private click(event: MouseEvent): void {
    const box = this.under(event);
    if (!box) return;
    if (this.owner.open) this.owner.open(box);
    else this.tell(this.current = box, event.clientX);
  }

  private press(event: KeyboardEvent): void {
    const next = this.neighbour(event.key);
    if (event.key === "Enter" && this.current) this.owner.open?.(this.current);
    else if (event.key === "Escape") this.owner.open?.(undefined);
    else if (next) this.current = next;
    else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    this.rest();
  }

  /** The caller, the widest of what it calls, or what lies beside it. */
  private neighbour(key: string): Boxed<N> | undefined {
    const { current, drawn } = this;
    if (!current) return undefined;
    const row = () => drawn.boxes.filter((box) => box.depth === current.depth).sort((a, b) => a.from - b.from);
    const callees = () => drawn.boxes.filter((box) => box.node.parent === current.node).sort((a, b) => b.to - b.from - (a.to - a.from));
    switch (key) {
      case "ArrowUp": return drawn.boxes.find((box) => box.node === current.node.parent);
      case "ArrowDown": return callees()[0];
      case "ArrowLeft": return row()[row().indexOf(current) - 1];
      case "ArrowRight": return row()[row().indexOf(current) + 1];
      default: return undefined;
    }
  }

  /** What is shown while nothing is pointed at: the box of the keyboard, if a keyboard led here. */
  private rest(): void {
    if (this.element.matches(":focus-visible") && this.current) this.tell(this.current);
    else this.hide();
  }

  private hide(): void {
    this.mark.hidden = this.tip.hidden = true;
  }

  /** Marks a box and says what it is, below it, and beside the pointer where there is one. */
  private tell(box: Boxed<N>, pointerX?: number): void {
    if (!this.svg) return;
    const [outer, inner, row] = [this.element.getBoundingClientRect(), this.svg.getBoundingClientRect(), this.rowPx()];
    const scale = inner.width / this.drawn.whole;
    const [left, top] = [inner.left - outer.left + box.from * scale, inner.top - outer.top + box.depth * row];
    place(this.mark, { left, top, width: (box.to - box.from) * scale, height: row });
    const words = this.owner.says(box);
    // What a screen reader has said it need not say again.
    if (this.tip.textContent !== words) this.tip.textContent = words;
    this.mark.hidden = this.tip.hidden = false;
    const wanted = pointerX === undefined ? left : pointerX - outer.left + GAP_PX;
    place(this.tip, { left: Math.max(0, Math.min(wanted, outer.width - this.tip.offsetWidth)), top: top + row + GAP_PX });
  }
}

function place(one: HTMLElement, sizes: Record<string, number>): void {
  for (const [name, px] of Object.entries(sizes)) one.style.setProperty(name, `${px}px`);
}
