// @ts-check
// The timeline as a picture of its own: SVG with its colours inside. Pure: a run in, text out.

import { ended, headOf, ms, rowsOf } from "./lanes.js";

const LANE = 210;
const GUTTER = 54;
const LINE = 16;
const CHARACTERS = 29;
/** Likewise of bold letters. */
const BOLD = 24;

/** @param {unknown} text */
const escape = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** @param {string} text @param {number} [width] characters */
function lines(text, width = CHARACTERS) {
  const result = [""];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const last = result.length - 1;
    if (result[last] && result[last].length + word.length + 1 > width) result.push(word);
    else result[last] = result[last] ? `${result[last]} ${word}` : word;
  }
  return result.filter(Boolean).flatMap((line) => line.match(new RegExp(`.{1,${width + 6}}`, "g")) ?? []);
}

/**
 * @param {import("./wire.js").Run} run
 * @param {import("./wire.js").Session[]} sessions
 * @param {string} title
 * @returns {string}
 */
export function pictureOf(run, sessions, title) {
  const rows = rowsOf(run);
  const lanes = [...sessions.map((each) => ({ name: each.name, head: `${each.name} at ${each.node}` }))];
  if (rows.some((row) => row.agent || !sessions.some((each) => each.name === row.card?.session))) lanes.push({ name: "", head: "agents" });
  const contents = rows.map((row) => contentOf(row));
  /** @type {number[]} */
  const tops = [];
  let y = 64;
  for (const content of contents) {
    tops.push(y);
    y += content.length * LINE + 14;
  }
  const width = GUTTER + lanes.length * LANE + 8;
  const parts = rows.map((row, at) => {
    const lane = Math.max(0, row.card && lanes.some((each) => each.name === row.card?.session) ? lanes.findIndex((each) => each.name === row.card?.session) : lanes.length - 1);
    const x = GUTTER + lane * LANE;
    const bottom = tops[row.until] + contents[row.until].length * LINE + 8;
    const style = row.card ? ({ refused: "bad", failed: "bad", skipped: "faint", not_played: "faint" }[row.card.state] ?? (row.card.waits_for ? "wait" : ended(row.card))) : "note";
    const text = contents[at].map((line, number) => `<text x="${x + 10}" y="${tops[at] + 15 + number * LINE}" class="${line.style}">${escape(line.text)}</text>`).join("");
    const when = row.card ? row.card.began_ms : row.agent?.at_ms;
    return `<rect x="${x}" y="${tops[at]}" width="${LANE - 12}" height="${bottom - tops[at]}" rx="3" class="card ${style}"/><rect x="${x}" y="${tops[at]}" width="3" height="${bottom - tops[at]}" class="edge ${style}"/>${text}<text x="${GUTTER - 10}" y="${tops[at] + 15}" class="ms">${when === undefined || row.card?.state === "not_played" ? "" : ms(when)}</text>`;
  });
  const outcome = lines(run.outcome, Math.floor(width / 8.5));
  const height = y + outcome.length * LINE + 12;
  const heads = lanes.map((lane, at) => `<text x="${GUTTER + at * LANE}" y="50" class="head">${escape(lane.head)}</text>`).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img"><title>${escape(title)}</title>
<style>svg{background:#f7f6f3;font:12px "DejaVu Sans",system-ui,sans-serif;fill:#1b1d21}.title{font-size:16px;font-weight:600}.head{font-weight:600}.ms{text-anchor:end;fill:#565b64}.card{fill:#efede8}.edge{fill:#565b64}.card.bad{fill:#fce9e8}.edge.bad{fill:#9c1519}.card.wait{fill:#fdf0d5}.edge.wait{fill:#744600}.card.good{fill:#e3f3e8}.edge.good{fill:#0b6234}.card.faint{fill:none;stroke:#d6d3cc;stroke-dasharray:4 3}.card.note{fill:#e8f0fb}.edge.note{fill:#1d4f92}.name{font-weight:600}.sql{fill:#565b64;font:11px "DejaVu Sans Mono",monospace}text.bad{fill:#9c1519;font-weight:600}text.wait{fill:#744600;font-weight:600}</style>
<text x="10" y="24" class="title">${escape(title)}</text>${heads}${outcome.map((text, at) => `<text x="10" y="${y + 14 + at * LINE}" class="name">${escape(text)}</text>`).join("")}
${parts.join("\n")}
</svg>
`;
}

/** @param {import("./lanes.js").Row} row @returns {{text: string, style: string}[]} */
function contentOf({ card, agent }) {
  if (card === undefined) return lines(agent?.text ?? "").map((text) => ({ text, style: "" }));
  const bad = card.state === "refused" || card.state === "failed";
  const head = headOf(card.result);
  return [
    { text: card.step, style: "name" },
    ...(card.text && card.text !== card.step ? lines(card.text, 27).map((text) => ({ text, style: "sql" })) : []),
    ...(card.waits_for ? lines(`waits for ${card.waits_for}`, BOLD).map((text) => ({ text, style: "wait" })) : []),
    ...(card.result && card.result !== "✓" ? lines(head, BOLD).map((text) => ({ text, style: bad ? "bad" : "" })) : []),
    ...lines(card.result.slice(head.length).replace(/^: /, "")).map((text) => ({ text, style: "" })),
    ...(bad && card.because && !card.result.includes(card.because) ? lines(`because ${card.because}`).map((text) => ({ text, style: "" })) : []),
  ];
}
