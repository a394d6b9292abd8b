// @ts-check
// The text of a scenario: CodeMirror with completion after the schema, and mistakes at their lines.

import { placeAt, wordsFor } from "./complete.js";

/** @typedef {{line: number, column: number, length?: number, message: string, remedy?: string, severity?: string}} Mistake */

/** One editor in an element; its styles live in a shadow root, for the page's policy lets nobody write any. */
export class Editor {
  #view;
  #parts;
  #extensions;
  #silent = false;

  /**
   * @param {any} parts what `vendor/codemirror.js` exports
   * @param {HTMLElement} place
   * @param {{schema: any, names: (path: string[]) => string[], changed: (text: string) => void, readOnly: boolean}} options
   */
  constructor(parts, place, options) {
    this.#parts = parts;
    const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
    const complete = (/** @type {any} */ context) => this.#complete(context, options);
    const { EditorView, EditorState } = parts;
    this.#extensions = [
      parts.lineNumbers(), parts.highlightActiveLine(), parts.highlightActiveLineGutter(), parts.highlightSpecialChars(),
      parts.history(), parts.drawSelection(), parts.dropCursor(), parts.indentOnInput(), parts.bracketMatching(),
      parts.closeBrackets(), parts.highlightSelectionMatches(), parts.indentUnit.of("  "), parts.yaml(), parts.lintGutter(),
      parts.syntaxHighlighting(highlighting(parts)), theme(parts),
      parts.autocompletion({ override: [complete], icons: false, activateOnTyping: true }),
      // Tab goes on to the next control, as everywhere: an indentation is two spaces
      parts.keymap.of([
        ...parts.closeBracketsKeymap, ...parts.defaultKeymap, ...parts.searchKeymap, ...parts.historyKeymap,
        ...parts.completionKeymap, ...parts.lintKeymap,
      ]),
      EditorState.readOnly.of(options.readOnly),
      EditorView.contentAttributes.of({ "aria-label": "Scenario file", spellcheck: "false", tabindex: "0" }),
      EditorView.updateListener.of((/** @type {any} */ update) => {
        if (update.docChanged && !this.#silent) options.changed(this.text);
      }),
    ];
    this.#view = new EditorView({ root, parent: root, state: EditorState.create({ extensions: this.#extensions }) });
  }

  get text() {
    return this.#view.state.doc.toString();
  }

  /** @param {string} text */
  set text(text) {
    if (text === this.text) return;
    this.#silent = true;
    try {
      this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } });
    } finally {
      this.#silent = false;
    }
  }

  /** Edit another file, of whose text nothing can be undone. @param {string} text */
  begin(text) {
    this.#view.setState(this.#parts.EditorState.create({ doc: text, extensions: this.#extensions }));
  }

  /** @param {any} context @param {{schema: any, names: (path: string[]) => string[]}} options */
  #complete(context, options) {
    const { doc } = context.state;
    const line = doc.lineAt(context.pos);
    const place = placeAt(doc.toString().split("\n"), line.number - 1, context.pos - line.from);
    if (place === null || (place.word === "" && !context.explicit)) return null;
    const found = wordsFor(options.schema, place, options.names);
    return {
      from: line.from + place.from,
      options: found.map((word) => ({
        label: word.label, info: word.detail || undefined, type: word.key ? "property" : "constant",
        apply: word.key ? `${word.label}: ` : word.label,
      })),
      validFor: /^[\w. -]*$/,
    };
  }

  /** @param {Mistake[]} mistakes shown at their lines */
  show(mistakes) {
    const { doc } = this.#view.state;
    const diagnostics = mistakes.map((mistake) => {
      const line = doc.line(Math.min(Math.max(1, mistake.line), doc.lines));
      const from = Math.min(line.from + Math.max(0, mistake.column - 1), line.to);
      const to = Math.min(line.to, Math.max(from + 1, from + (mistake.length ?? 1)));
      const message = [mistake.message, mistake.remedy].filter(Boolean).join("\n");
      return { from: Math.min(from, to), to, severity: mistake.severity ?? "error", message };
    });
    this.#view.dispatch(this.#parts.setDiagnostics(this.#view.state, diagnostics));
  }

  /** @param {number} line @param {number} column from 1 */
  go(line, column) {
    const { doc } = this.#view.state;
    const at = doc.line(Math.min(Math.max(1, line), doc.lines));
    const pos = Math.min(at.from + Math.max(0, column - 1), at.to);
    this.#view.dispatch({ selection: { anchor: pos }, effects: this.#parts.EditorView.scrollIntoView(pos, { y: "center" }) });
    this.#view.focus();
  }

  focus() {
    this.#view.focus();
  }
}

/** @param {any} parts */
function highlighting({ HighlightStyle, tags }) {
  return HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
    { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
    { tag: [tags.keyword, tags.bool, tags.null, tags.number], color: "var(--wait)" },
    { tag: [tags.comment, tags.lineComment], color: "var(--soft)", fontStyle: "italic" },
    { tag: [tags.punctuation, tags.separator, tags.brace, tags.squareBracket], color: "var(--soft)" },
    { tag: tags.invalid, color: "var(--bad)" },
  ]);
}

/** @param {any} parts */
function theme({ EditorView }) {
  return EditorView.theme({
    "&": { color: "var(--ink)", backgroundColor: "var(--card)", border: "1px solid var(--line)", borderRadius: "0.3rem", fontSize: "0.8125rem", height: "100%" },
    "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
    ".cm-content": { caretColor: "var(--ink)" },
    ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--ink)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--now)" },
    ".cm-gutters": { backgroundColor: "var(--step-back)", color: "var(--soft)", borderRight: "1px solid var(--line)" },
    ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--now) 35%, transparent)" },
    ".cm-activeLineGutter": { backgroundColor: "var(--now)", color: "var(--ink)" },
    ".cm-selectionMatch": { backgroundColor: "var(--note-back)" },
    ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--now)", outline: "1px solid var(--accent)" },
    ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "0.3rem", boxShadow: "var(--shadow)" },
    ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
    ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
    ".cm-completionInfo": { padding: "0.3rem 0.6rem", maxWidth: "22rem", fontFamily: "var(--sans)" },
    ".cm-diagnostic": { padding: "0.25rem 0.6rem", whiteSpace: "pre-wrap", fontFamily: "var(--sans)" },
    ".cm-diagnostic-error": { borderLeft: "4px double var(--bad)" },
    ".cm-diagnostic-warning": { borderLeft: "4px dashed var(--wait)" },
    ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
    ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--wait)", textUnderlineOffset: "3px" },
    ".cm-panels": { backgroundColor: "var(--step-back)", color: "var(--ink)", borderColor: "var(--line)" },
    ".cm-panels input, .cm-panels button": { font: "inherit", color: "inherit", backgroundColor: "var(--card)", backgroundImage: "none", border: "1px solid var(--line)", borderRadius: "0.2rem" },
  });
}
