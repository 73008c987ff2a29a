// The data that a page carries: `whyslow schema report` describes it in full; here stands what is drawn.

import type { Packed } from "./flame/packed";

export type Metric = "cpu_per_request" | "rate" | "p50" | "p90" | "p99" | "p99_9" | "rss";
export type Verdict = "faster" | "slower" | "equal" | "inconclusive" | "invalid";

export type Range = [low: number, high: number];

export interface Arm {
  name: string;
  limiter: string | null;
  server_set_busy: number | null;
  /** Lowest and highest round; pages of before have none, of this and of the other below. */
  server_set_busy_range?: Range | null;
  busy_cores: number | null;
  rate_per_s: number | null;
  rounds: number;
  requests: number;
  cpu_ns_per_request: { total: number; user: number; system: number; softirq: number } | null;
  cpu_ns_per_request_range?: Range | null;
}

/** What is said of one system against another. */
export interface Estimate {
  verdict: Verdict;
  ratio: number | null;
  ci_low: number | null;
  ci_high: number | null;
  level: number | null;
  blocks: number;
}

export interface Comparison extends Estimate {
  baseline: string;
  arm: string;
  metric: Metric;
  primary: boolean;
  condition: string;
  noise_floor: number | null;
  delta: number;
  pairs: [block: number, lnRatio: number][];
  void_by: string[];
}

/** A leaf of the tree of CPU time; all of an arm sum to its CPU per request. */
export interface Leaf {
  arm: string;
  path: string[];
  baseline_ns: number;
  arm_ns: number;
  delta_ns: number;
  delta_se_ns: number;
  count?: { baseline: number; arm: number } | null;
  where?: { function: string; file?: string | null; line?: number | null } | null;
}

/** Time that threads waited for a request; all of an arm sum to it. */
export interface Wait {
  arm: string;
  ended_by: string;
  ns_per_request: number;
}

export interface Host {
  cpu_model: string;
  cpus: number;
  kernel: string;
  memory_bytes: number;
}

export interface Findings {
  run_id: string;
  baseline: string;
  condition: string;
  window_ns: number;
  host: Host;
  arms: Arm[];
  comparisons: Comparison[];
  /** Pages of before have neither. */
  attribution?: Leaf[];
  waits?: Wait[];
}

export interface Window {
  condition: string;
  values: Partial<Record<Metric, number>>;
  per_s: number[];
  p99_ns: (number | null)[];
}

export interface Round {
  block: number;
  position: number;
  attempt: number;
  arm: string;
  started_unix_ms: number;
  void: string | null;
  warmup_per_turn: number[];
  steady: boolean;
  windows: Window[];
}

export interface LatencyPoint {
  quantile: number;
  ns: number;
  low_ns: number;
  high_ns: number;
  rounds: number;
}

export interface LatencyCurve {
  arm: string;
  condition: string;
  closed_loop: boolean;
  rate_per_s: number;
  requests: number;
  points: LatencyPoint[];
}

export interface Frame {
  name: string;
  module: string;
  kernel: boolean;
}

export interface Stack {
  /** Indices into the frames, outermost first. */
  frames: number[];
  samples: number;
}

export interface Profile {
  arm: string;
  samples: number;
  /** What one sample stands for, in nanoseconds of each request. */
  ns_per_request_of_sample: number;
  /** Whether callers are known; without them only the innermost function of each stack is to be believed. */
  callers: boolean;
  notes: string[];
  frames: Frame[];
  /** Crates, packages and libraries, and for each frame the place of its own; pages of before have none. */
  packages?: string[];
  package_of?: number[];
  stacks: Stack[];
}

export interface Rung extends Estimate {
  from: string;
  to: string;
}

export interface Ladder {
  steps: string[];
  metrics: { metric: Metric; rungs: Rung[]; whole: Rung }[];
}

export interface Run {
  /** With each arm as the baseline, the plan's own first. */
  findings: Findings[];
  detail: { started_unix_s: number; rounds: Round[]; latency: LatencyCurve[] };
  /** Stacks of the arms that were sampled; of a page with schema 1 they are not packed. */
  profiles: Packed | Profile[];
  ladder: Ladder | null;
  damaged: string[];
}

export interface PageData {
  schema: number;
  runs: Run[];
}

export const METRICS: Record<Metric, string> = {
  cpu_per_request: "CPU per request",
  rate: "rate",
  p50: "p50",
  p90: "p90",
  p99: "p99",
  p99_9: "p99.9",
  rss: "memory",
};
