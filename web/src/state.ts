// What the reader chose. It stands in the address, so that a link shows what its sender saw.

import { METRICS, type Metric } from "./data";

export interface State {
  /** The part that was jumped to. */
  part: string;
  /** Name of the baseline; empty: the run's own. */
  baseline: string;
  /** Empty: the declared primary metrics. */
  metric: Metric | "";
  /** Arms that are not shown. */
  off: string[];
  /** Condition of the latency chart; empty: the first that may be compared. */
  condition: string;
  /** The arm whose profile is shown; empty: the first. */
  arm: string;
  /** What the flame graph shows. */
  flame: string;
  /** Text that functions are searched for. */
  search: string;
  /** The box that the flame graph is zoomed to. */
  zoom: string;
  /** The table that was sorted last: its name, the column, and `down` or `up`, between dots. */
  sort: string;
  theme: "" | "light" | "dark";
}

const EMPTY: State = { part: "", baseline: "", metric: "", off: [], condition: "", arm: "", flame: "", search: "", zoom: "", sort: "", theme: "" };

/** `#part;key=value;key=value` to a state. What it does not know it leaves out. */
export function parse(hash: string): State {
  const state: State = { ...EMPTY, off: [] };
  for (const [index, piece] of hash.replace(/^#/, "").split(";").entries()) {
    const equals = piece.indexOf("=");
    if (equals < 0) {
      if (index === 0) state.part = decode(piece);
      continue;
    }
    const [key, value] = [piece.slice(0, equals), decode(piece.slice(equals + 1))];
    if (key === "off") state.off = value.split(",").map(decode).filter(Boolean);
    else if (key in EMPTY && key !== "part") (state as unknown as Record<string, string>)[key] = value;
  }
  if (!(state.metric in METRICS)) state.metric = "";
  if (state.theme !== "light" && state.theme !== "dark") state.theme = "";
  return state;
}

/** The address of a state: only what differs from the beginning. */
export function print(state: State): string {
  const pieces = state.part ? [encodeURIComponent(state.part)] : [];
  for (const [key, value] of Object.entries(state)) {
    if (key === "part" || value.length === 0) continue;
    const text = Array.isArray(value) ? value.map(encodeURIComponent).join(",") : String(value);
    pieces.push(`${key}=${encodeURIComponent(text)}`);
  }
  return `#${pieces.join(";")}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** So long nothing is typed before it goes to the address: browsers refuse an address that changes with every letter. */
const SETTLED_MS = 200;

type Listener = (state: State) => void;

/** The state of this page with all who must know of a change. */
export class Store {
  private listeners: Listener[] = [];
  state: State;
  private writing = 0;

  constructor() {
    this.state = parse(location.hash);
    addEventListener("hashchange", () => this.moved());
  }

  onChange(listener: Listener): void {
    this.listeners.push(listener);
  }

  set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.write();
    this.tell();
  }

  /** Remembers what a chart has already drawn by itself: nobody need draw again. */
  keep(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    clearTimeout(this.writing);
    this.writing = window.setTimeout(() => this.write(), SETTLED_MS);
  }

  private write(): void {
    clearTimeout(this.writing);
    history.replaceState(null, "", print(this.state));
  }

  /** A plain anchor such as `#latency` keeps what was chosen. */
  private moved(): void {
    const moved = parse(location.hash);
    const anchor = !location.hash.includes("=");
    this.state = anchor ? { ...this.state, part: moved.part } : moved;
    if (anchor) this.write();
    this.tell();
    document.getElementById(this.state.part)?.scrollIntoView();
  }

  private tell(): void {
    for (const listener of this.listeners) listener(this.state);
  }
}
