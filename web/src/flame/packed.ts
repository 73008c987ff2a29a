// Profiles as a page carries them, unpacked: `crates/report/src/packed.rs` packs them.

import type { Frame, Profile, Run, Stack } from "../data";

/** A function: its name, the places of its module and of its package among the names, and whether it is the kernel's. */
type Function = [name: string, module: number, group: number, kernel: boolean];

export interface Packed {
  /** Modules, crates, packages and libraries. */
  names: string[];
  functions: Function[];
  arms: PackedArm[];
}

interface PackedArm extends Pick<Profile, "arm" | "samples" | "ns_per_request_of_sample" | "callers" | "notes"> {
  /** Samples, how many functions the stack shares with the one before it, and its further functions. */
  stacks: number[][];
}

const KNOWN = new WeakMap<Run, Profile[]>();

/** The profiles of a run; unpacked once, when they are first drawn, so that the verdict does not wait for them. */
export function profilesOf(run: Run): Profile[] {
  const { profiles } = run;
  if (Array.isArray(profiles)) return profiles;
  const known = KNOWN.get(run) ?? unpack(profiles);
  KNOWN.set(run, known);
  return known;
}

function unpack({ names, functions, arms }: Packed): Profile[] {
  const frames = functions.map(([name, module, , kernel]): Frame => ({ name, module: names[module] ?? "", kernel }));
  const package_of = functions.map(([, , place]) => place);
  return arms.map((arm) => ({ ...arm, frames, packages: names, package_of, stacks: stacksOf(arm.stacks) }));
}

function stacksOf(rows: number[][]): Stack[] {
  let before: number[] = [];
  const stacks = rows.map(([samples = 0, shared = 0, ...own]) => {
    before = [...before.slice(0, shared), ...own];
    return { frames: before, samples };
  });
  return stacks.sort((a, b) => b.samples - a.samples);
}
