// Profiles for other viewers.

import type { Profile } from "../data";

/**
 * A profile for speedscope, with the functions of this arm alone.
 *
 * Source: https://www.speedscope.app/file-format-schema.json, a profile of the kind "sampled".
 */
export function speedscope(profile: Profile): string {
  const used = [...new Set(profile.stacks.flatMap((stack) => stack.frames))].filter((index) => profile.frames[index] !== undefined);
  const places = new Map(used.map((index, place) => [index, place]));
  const weights = profile.stacks.map((stack) => stack.samples * profile.ns_per_request_of_sample);
  const end = weights.reduce((sum, weight) => sum + weight, 0);
  return JSON.stringify({
    $schema: "https://www.speedscope.app/file-format-schema.json",
    exporter: "whyslow",
    name: `${profile.arm}, ns per request`,
    activeProfileIndex: 0,
    shared: { frames: used.map((index) => profile.frames[index]!).map((frame) => ({ name: frame.name, file: frame.module })) },
    profiles: [
      {
        type: "sampled",
        name: profile.arm,
        unit: "nanoseconds",
        startValue: 0,
        endValue: end,
        samples: profile.stacks.map((stack) => stack.frames.map((index) => places.get(index)).filter((place) => place !== undefined)),
        weights,
      },
    ],
  });
}

/** The kernel's frames are known to the viewer by this module. */
const KERNEL = "[kernel.kallsyms]";

/**
 * What `perf script` prints, which Firefox Profiler opens: a sample a line with its stack under it, innermost first.
 * Stacks were counted, not dated: samples stand a millisecond apart in the order of the stacks.
 */
export function perfScript(profile: Profile): string {
  const thread = profile.arm.replaceAll(/\s/g, "_");
  const lines: string[] = [];
  let at = 0;
  for (const stack of profile.stacks) {
    const frames = stack.frames.map((index) => profile.frames[index]).filter((frame) => frame !== undefined).reverse();
    const text = frames.map((frame) => `\t1 ${frame.name} (${frame.kernel ? KERNEL : frame.module.replaceAll(/\s/g, "_")})`);
    for (let sample = 0; sample < stack.samples; sample++) {
      lines.push(`${thread} 1/1 ${(1 + at / 1000).toFixed(3)}: 1 cpu-clock:`, ...text, "");
      at += 1;
    }
  }
  return lines.join("\n");
}
