// A browser, pages made by whyslow from run directories, and what must hold of every page.

import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const HERE = dirname(fileURLToPath(import.meta.url));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const WHYSLOW = process.env.WHYSLOW ?? join(HERE, "../../target/release/whyslow");
/** Where pictures for review go, if they are wanted. */
export const PICTURES = process.env.PICTURES;

export const folder = mkdtempSync(join(tmpdir(), "whyslow-web-"));
let browser;

export async function start() {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

export async function stop() {
  await browser.close();
  rmSync(folder, { recursive: true });
}

/** A copy of the run that is kept for tests; `change(file name, JSON)` may change what is in it. */
export function run(name, change = () => {}) {
  const to = join(folder, name);
  cpSync(join(HERE, "../fixtures/demo"), to, { recursive: true });
  const files = ["manifest.json", "host.json", ...readdirSync(join(to, "rounds")).map((file) => `rounds/${file}`)];
  for (const file of files) {
    const value = JSON.parse(readFileSync(join(to, file), "utf8"));
    change(file, value);
    writeFileSync(join(to, file), JSON.stringify(value));
  }
  return to;
}

/** The file of a report on these runs, all of which can be read. */
export function report(name, ...runs) {
  const file = join(folder, name);
  execFileSync(WHYSLOW, ["report", ...runs, "-o", file], { stdio: ["ignore", "ignore", "pipe"] });
  return file;
}

/** The file of a report on runs of which some cannot be read, and what is printed about those. */
export function reportInPart(name, ...runs) {
  const file = join(folder, name);
  const { status, stderr } = spawnSync(WHYSLOW, ["report", ...runs, "-o", file], { encoding: "utf8" });
  assert.equal(status, 1, stderr);
  return { file, stderr };
}

export function dataOf(file) {
  return JSON.parse(/id="whyslow-data">(.*?)<\/script>/s.exec(readFileSync(file, "utf8"))[1]);
}

/** Opens a page and gathers what it must not do. */
export async function open(address, { hash = "", width = 1280, height = 900, scripts = true, scheme = "light", init } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, javaScriptEnabled: scripts, colorScheme: scheme, acceptDownloads: true });
  const page = await context.newPage();
  const faults = [];
  if (init) await page.addInitScript(init);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    const own = request.url() === "data:," || request.url().startsWith("blob:") || request.url().split("#")[0] === page.url().split("#")[0] || request.isNavigationRequest();
    if (!own && address.startsWith("/")) faults.push(`asked for ${request.url()}`);
  });
  const drawn = () => scripts && page.waitForFunction(() => !document.getElementById("whyslow-data") || document.documentElement.dataset.drawn !== undefined);
  const reload = page.reload.bind(page);
  page.reload = async () => { await reload(); await drawn(); };
  await page.goto((address.startsWith("/") ? `file://${address}` : address) + hash);
  await drawn();
  return { page, faults, close: () => context.close() };
}

/** Findings of axe-core that matter, as text. */
export async function axe(page) {
  await page.evaluate(AXE);
  const results = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = results.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  return serious.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
}

/** A page is opened, tried, and held to what holds of every page. */
export async function on(address, options, check) {
  const { page, faults, close } = await open(address, options);
  try {
    await check(page);
    assert.deepEqual(faults, [], "the console is silent and nothing is asked for");
  } finally {
    await close();
  }
}

/** `whyslow view` on a folder of runs; gives its address and how to end it. */
export async function view(runs) {
  const server = spawn(WHYSLOW, ["view", "--runs", runs, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const address = await new Promise((resolve, reject) => {
    let said = "";
    server.stderr.on("data", (bytes) => {
      said += bytes;
      const found = /http:\/\/[\d.:]+/.exec(said);
      if (found) resolve(found[0]);
    });
    server.on("exit", () => reject(new Error(said)));
  });
  return { address, stop: () => new Promise((resolve) => { server.on("exit", resolve); server.kill("SIGTERM"); }) };
}
