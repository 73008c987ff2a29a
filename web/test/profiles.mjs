// Runs with diagnostic rounds: profiles that were made up, in the records of runs that were not.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./support.mjs";

/** Puts an untouched and a sampled pass of each arm into a run; `profiles` has one for each arm that is sampled. */
export function sample(directory, profiles) {
  mkdirSync(join(directory, "diagnostics"));
  for (const [arm, profile] of Object.entries(profiles)) {
    const { windows, schema, port } = roundOf(directory, arm);
    const [window] = windows;
    const pass = (kind, profile) => ({ kind, window, missing: [], ...(profile && { profile }) });
    // Samples must stand for the CPU time of their window: a profile of less than half of it is refused.
    const { cpu, wall_ns } = window.target;
    const whole = { ...profile, wall_ns, period_ns: Math.round(cpu.total_ns / profile.samples) };
    const record = { schema, arm, block: 0, port, passes: [pass("untouched"), pass("sampling", whole)], failure: null };
    writeFileSync(join(directory, `diagnostics/d000-${arm}.json`), JSON.stringify(record));
  }
}

function roundOf(directory, arm) {
  for (let place = 0; ; place++) {
    const record = JSON.parse(readFileSync(join(directory, `rounds/b000-p${place}.json`), "utf8"));
    if (record.arm === arm) return record;
  }
}

/** A profile record of these functions and stacks, `[indices outermost first, samples]`. */
export function profile(frames, stacks) {
  return {
    schema: 1, kind: "cpu", period_ns: 1e6, wall_ns: 1e9, samples: stacks.reduce((sum, [, samples]) => sum + samples, 0), lost: 0,
    kernel: true, kernel_symbols: true, callers: true, observer_cpu_ns: 0, notes: [], frames,
    stacks: stacks.map(([frames, samples]) => ({ frames, samples })),
  };
}

/** Samples by stack, outermost first; `[kernel]` is the module of what ends in `_k`. */
const SAMPLED = {
  threads: { "main serve http1::parse": 600, "main serve write sys_write_k": 300, "main serve lock": 100 },
  futures: { "main serve http1::parse": 200, "main serve write sys_write_k": 250, "main poll": 150 },
  coroutines: { "main serve http1::parse": 150, "main serve write sys_write_k": 150 },
};

/** Profiles that can be checked by hand, for each arm of the run that is kept for tests. */
export function sampleSmall(directory) {
  sample(directory, Object.fromEntries(Object.entries(SAMPLED).map(([arm, stacks]) => [arm, folded(stacks)])));
}

function folded(stacks) {
  const names = [...new Set(Object.keys(stacks).flatMap((stack) => stack.split(" ")))];
  const frames = names.map((name) => ({ name, module: name.endsWith("_k") ? "[kernel]" : "server", kernel: name.endsWith("_k"), resolved: true }));
  return profile(frames, Object.entries(stacks).map(([stack, samples]) => [stack.split(" ").map((name) => names.indexOf(name)), samples]));
}

/** Numbers below `limit`, the same in each run of the tests. Source: Numerical Recipes, the quick generator. */
function dice(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const STACKS = 1500;
const FUNCTIONS = 500;
/** Of every arm's functions these are the kernel's and the library's, which all arms run. */
const COMMON = 200;
const LEAST_DEPTH = 30;
const DEPTHS = 11;

/** A profile as a real one is: every stack branches off an earlier one, and ends 30 to 40 calls deep. */
export function deep(seed) {
  const roll = dice(seed);
  const frames = Array.from({ length: FUNCTIONS }, (_, index) => functionOf(index, index < COMMON ? 0 : seed));
  const stacks = [];
  for (let index = 0; index < STACKS; index++) {
    const depth = LEAST_DEPTH + roll(DEPTHS);
    const trunk = index === 0 ? [] : stacks[roll(index)][0].slice(0, roll(depth));
    const rest = Array.from({ length: depth - trunk.length }, () => roll(FUNCTIONS));
    stacks.push([[...trunk, ...rest], 1 + roll(40)]);
  }
  return profile(frames, stacks);
}

/** Names as long as those of Rust and of the kernel. */
function functionOf(index, seed) {
  const kernel = index < COMMON / 2;
  const name = kernel
    ? `__kernel_function_number_${index}`
    : `<server_${seed}::connection::part_${index % 20}::Handler<T> as core::future::Future>::poll_${index}::{{closure}}`;
  return { name, module: kernel ? "[kernel]" : index < COMMON ? "libc.so.6" : `server-${seed}`, kernel, resolved: true };
}

/** A run of four arms and 30 blocks of ten seconds each, with a profile of every arm. */
export function large(name) {
  const directory = run(name, (file, value) => {
    if (file !== "manifest.json") return;
    value.plan.arms.push({ ...value.plan.arms[2], name: "fourth" });
    value.builds.push({ ...value.builds[2], arm: "fourth" });
    value.pilot_per_s.push(90_000);
    value.plan.design.blocks.blocks = 30;
  });
  const kept = [0, 1, 2].map((place) => JSON.parse(readFileSync(join(directory, `rounds/b000-p${place}.json`), "utf8")));
  kept.push({ ...kept[0], arm: "fourth", round: { ...kept[0].round, arm: 3 } });
  for (let block = 0; block < 30; block++) for (const [position, record] of kept.entries()) write(directory, record, block, position);
  sample(directory, Object.fromEntries(kept.map(({ arm }, index) => [arm, deep(index + 1)])));
  return directory;
}

function write(directory, record, block, position) {
  const round = structuredClone(record);
  Object.assign(round.round, { block, position });
  round.started_unix_ms += 1000 * (block * 4 + position);
  for (const window of round.windows) {
    window.load.seconds = Array.from({ length: 10 }, () => window.load.seconds[0]);
    window.target.cpu.total_ns += ((block * 7919 + position * 104729) % 1000) * 1000;
  }
  writeFileSync(join(directory, `rounds/b${String(block).padStart(3, "0")}-p${position}.json`), JSON.stringify(round));
}
