// Figures for people, as the text of the report writes them.

import { METRICS, type Metric } from "./data";

/** Nanoseconds with three significant digits: `842 ns`, `3.31 µs`, `12.4 ms`, `1.20 s`. */
export function ns(value: number): string {
  const size = Math.abs(value);
  const [scaled, unit] =
    size >= 999.5e6 ? [value / 1e9, "s"] : size >= 999.5e3 ? [value / 1e6, "ms"] : size >= 999.5 ? [value / 1e3, "µs"] : [value, "ns"];
  const digits = unit === "ns" || Math.abs(scaled) >= 99.95 ? 0 : Math.abs(scaled) >= 9.995 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${unit}`;
}

export function signedNs(value: number): string {
  return value > 0 ? `+${ns(value)}` : ns(value);
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

export function ratio(value: number): string {
  return value.toFixed(3);
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

/** A value of a metric with its unit. */
export function value(metric: Metric, figure: number): string {
  if (metric === "rate") return `${count(figure)}/s`;
  if (metric === "rss") return `${(figure / 1048576).toFixed(1)} MiB`;
  return ns(figure);
}

/** A percentile from a share: `99.9 %`. */
export function quantile(share: number): string {
  return `${Number((share * 100).toFixed(4))} %`;
}

export function metric(name: Metric): string {
  return METRICS[name];
}
