// Which chart stands in which part.

import { flame } from "../flame/chart";
import { forest } from "./forest";
import { latency } from "./latency";
import { ledger } from "./ledger";
import { limits } from "./limits";
import { pairs } from "./pairs";
import { waterfall } from "./waterfall";
import type { Chart } from "./view";

export const CHARTS: Record<string, Chart> = { verdict: forest, limits, waterfall, ledger, profile: flame, latency, pairs };
