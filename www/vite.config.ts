import { defineConfig } from "vite";

export default defineConfig({
  // Served by the reference server at `/`, which knows no other base.
  base: "./",
  // The package is a link; what it imports must be the page's own copies, since CodeMirror compares classes.
  resolve: { dedupe: ["@codemirror/commands", "@codemirror/state", "@codemirror/view"] },
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    // A module that is inlined as a data: URL would need `data:` in a content security policy.
    assetsInlineLimit: 0,
    sourcemap: true,
  },
});
