import { defineConfig } from "vite";

// One script and one style sheet, which crates/report puts into every page.
export default defineConfig({
  build: {
    lib: { entry: "src/main.ts", formats: ["iife"], name: "whyslow", fileName: () => "report.js", cssFileName: "report" },
    target: "es2022",
    sourcemap: false,
    // Within the crate, so that its package holds them.
    outDir: "../crates/report/charts",
    emptyOutDir: true,
  },
});
