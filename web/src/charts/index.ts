// Which chart stands in which part.

import { flame } from "../flame/chart";
import { gap } from "./gap";
import { forest } from "./forest";
import { latency } from "./latency";
import { ladder } from "./ladder";
import { limits } from "./limits";
import { pairs } from "./pairs";
import type { Chart } from "./view";

export const CHARTS: Record<string, Chart> = { verdict: forest, limits, waterfall: gap, profile: flame, latency, pairs, ladder };
