// Bundles CodeMirror for a release: `npm run build`. Installs what it needs elsewhere, and leaves nothing behind.

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const work = mkdtempSync(join(tmpdir(), "twopc-page-"));
try {
  for (const name of ["package.json", "package-lock.json"]) {
    if (existsSync(join(here, name))) copyFileSync(join(here, name), join(work, name));
  }
  const locked = existsSync(join(here, "package-lock.json"));
  execFileSync("npm", [locked ? "ci" : "install", "--no-audit", "--no-fund"], { cwd: work, stdio: "inherit" });
  const esbuild = createRequire(join(work, "package.json"))("esbuild");
  const result = await esbuild.build({
    entryPoints: [join(here, "vendor", "codemirror.entry.js")],
    outfile: join(here, "vendor", "codemirror.js"),
    nodePaths: [join(work, "node_modules")],
    bundle: true,
    format: "esm",
    minify: true,
    target: "es2022",
    legalComments: "none",
    metafile: true,
    banner: { js: "// CodeMirror and what it needs, bundled by build.mjs; licences: codemirror.licences.txt" },
  });
  const names = Object.keys(result.metafile.inputs)
    .map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1])
    .filter((name) => name !== undefined);
  const licences = [...new Set(names)].sort().map((name) => {
    const folder = join(work, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[sc]e/i.test(each));
    return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : ""}\n`;
  });
  writeFileSync(join(here, "vendor", "codemirror.licences.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
  if (!locked) copyFileSync(join(work, "package-lock.json"), join(here, "package-lock.json"));
} finally {
  rmSync(work, { recursive: true, force: true });
}
